package bench;

interface Job {
    void start() throws Exception;

    /** The fields of a result in src/work.ts, as JSON. */
    String measure(int ms) throws Exception;
}
