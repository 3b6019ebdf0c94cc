package bench;

/** What is measured, as src/library.ts has it. */
interface Locker {
    /** Once for each name, before anything else. */
    default void prepare(String name) throws Exception {}

    /** Takes what is named, however long that takes; answers how to let go of it, on the same thread. */
    Release acquire(String name) throws Exception;

    interface Release {
        void run() throws Exception;
    }
}
