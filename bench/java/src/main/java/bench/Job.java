package bench;

interface Job {
    void start() throws Exception;

    /** The fields of a result of src/work.ts, as JSON. */
    String measure(int ms) throws Exception;
}
