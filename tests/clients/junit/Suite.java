import java.io.PrintStream;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Suite SECONDS FILE CLASS...: runs JUnit 4 test classes and writes "status, test, message" lines, tabs between.
 * A test still running after SECONDS is interrupted; one that ignores even that ends the whole run.
 */
public class Suite extends RunListener {
    private final PrintStream report;
    private Description running;
    private String status, why;
    private long started;

    Suite(PrintStream report) { this.report = report; }

    @Override public synchronized void testStarted(Description test) {
        running = test;
        status = "passed";
        why = "";
        started = System.nanoTime();
    }

    @Override public synchronized void testIgnored(Description test) {
        testStarted(test);
        status = "skipped";
        testFinished(test);
    }

    @Override public synchronized void testAssumptionFailure(Failure failure) { status = "skipped"; }

    @Override public synchronized void testFailure(Failure failure) {
        boolean aroundTests = running == null;
        if (aroundTests) testStarted(failure.getDescription());
        if (!status.equals("failed")) why = failure.getTrace();
        status = "failed";
        if (aroundTests) testFinished(failure.getDescription());
    }

    @Override public synchronized void testFinished(Description test) {
        String name = test.getTestClass() == null ? test.getDisplayName()
            : test.getTestClass().getSimpleName() + "::" + test.getMethodName();
        report.println(status + "\t" + name + "\t" + why.replaceAll("\\s+", " "));
        running = null;
    }

    /** How long the present test has been running, in seconds. */
    private synchronized long age() { return running == null ? 0 : (System.nanoTime() - started) / 1_000_000_000; }

    private synchronized void giveUp(long seconds) {
        status = "failed";
        why = "still running after " + seconds + " s, and interrupted in vain";
        testFinished(running);
        report.flush();
        Runtime.getRuntime().halt(1);
    }

    private void run(Class<?> tests, long seconds) throws InterruptedException {
        JUnitCore core = new JUnitCore();
        core.addListener(this);
        Thread thread = new Thread(() -> core.run(tests));
        thread.start();
        for (; thread.isAlive(); thread.join(200)) {
            if (age() > seconds) thread.interrupt();
            if (age() > 4 * seconds) giveUp(4 * seconds);
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (PrintStream report = new PrintStream(arguments[1], "UTF-8")) {
            for (int i = 2; i < arguments.length; i++) {
                new Suite(report).run(Class.forName(arguments[i]), Long.parseLong(arguments[0]));
            }
        }
        Runtime.getRuntime().halt(0);   // threads that tests left behind keep no process alive
    }
}
