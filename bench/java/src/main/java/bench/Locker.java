package bench;

/** A lock as a library provides it, like src/library.ts. */
interface Locker {
    /** Called once per name, before anything else. */
    default void prepare(String name) throws Exception {}

    /** Acquires the lock, however long that takes, and returns its release, for the same thread. */
    Release acquire(String name) throws Exception;

    interface Release {
        void run() throws Exception;
    }
}
