// The harness behind check.h: registers tests, runs them one after another in the order of their
// definition, and reports. Every line is written at once, so that nothing is lost in a crash, and a
// crash names the test it happened in.

#include "support/check.h"

#include "support/early_end.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#if !defined(__wasm__)
#include <signal.h>
#include <unistd.h>
#endif

// A check in a loop over a million values would otherwise bury the first message.
enum { MAX_DETAILS = 20, MAX_REASON = 512 };

static struct check_test *first_test;
static struct check_test **last_link = &first_test;

static void (*before_each)(void);

static struct check_test *volatile current_test;
static atomic_int failures; // of the current test
static char skip_reason[MAX_REASON];
static volatile bool skipped;

void check_register(struct check_test *test) {
    *last_link = test;
    last_link = &test->next;
}

void check_before_each(void (*function)(void)) { before_each = function; }

// Counts a failure; true if its details should be printed.
static bool count_failure(const char *file, int line) {
    int earlier = atomic_fetch_add(&failures, 1);
    if (earlier >= MAX_DETAILS) {
        return false;
    }
    printf("     %s:%d: ", file, line);
    return true;
}

bool check_that(bool passed, const char *file, int line, const char *condition) {
    if (!passed && count_failure(file, line)) {
        printf("not true: %s\n", condition);
    }
    return passed;
}

bool check_message(bool passed, const char *file, int line, const char *condition,
                   const char *format, ...) {
    if (!passed && count_failure(file, line)) {
        char message[MAX_REASON];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, sizeof message, format, arguments);
        va_end(arguments);
        printf("not true: %s: %s\n", condition, message);
    }
    return passed;
}

bool check_near(double actual, double expected, double tolerance, const char *file, int line,
                const char *text) {
    double difference = fabs(actual - expected);
    bool both_nan = isnan(actual) && isnan(expected);
    bool both_same_infinity = isinf(actual) && isinf(expected) && (actual > 0) == (expected > 0);
    bool passed = both_nan || both_same_infinity || difference <= tolerance;
    if (!passed && count_failure(file, line)) {
        printf("%s is %.17g, expected %.17g within %.3g (off by %.3g)\n", text, actual, expected,
               tolerance, difference);
    }
    return passed;
}

bool check_int(long long actual, long long expected, const char *file, int line, const char *text) {
    bool passed = actual == expected;
    if (!passed && count_failure(file, line)) {
        printf("%s is %lld, expected %lld\n", text, actual, expected);
    }
    return passed;
}

bool check_str(const char *actual, const char *expected, const char *file, int line,
               const char *text) {
    bool passed = actual && expected ? strcmp(actual, expected) == 0 : actual == expected;
    if (!passed && count_failure(file, line)) {
        printf("%s is \"%s\", expected \"%s\"\n", text, actual ? actual : "(null)",
               expected ? expected : "(null)");
    }
    return passed;
}

void check_end_test(void) { early_end(); }

void check_skip(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(skip_reason, sizeof skip_reason, format, arguments);
    va_end(arguments);
    skipped = true;
    early_end();
}

#if defined(__wasm__)
static void watch_for_crashes(void) {} // there are no signals; a trap ends the program with a trace
#else
// Names the test that was running when the process dies. Only async-signal-safe calls: the heap may
// be in any state.
static void tell_crash(void) {
    const struct check_test *test = current_test;
    if (test) {
        static const char before[] = "FAIL ", after[] = ": crashed\n";
        ssize_t written = write(STDOUT_FILENO, before, sizeof before - 1);
        written += write(STDOUT_FILENO, test->name, strlen(test->name));
        written += write(STDOUT_FILENO, after, sizeof after - 1);
        (void)written; // nothing is left to be done about a failure here
    }
}

static void on_crash(int signal_number) {
    tell_crash();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

// Defined if a sanitizer is linked in. It keeps the signals it handles: its report is better than
// ours.
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void watch_for_crashes(void) {
    signal(SIGABRT, on_crash);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(tell_crash);
        return;
    }
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        signal(signals[i], on_crash);
    }
}

#endif

static bool chosen(const struct check_test *test, int n_names, char **names) {
    for (int i = 0; i < n_names; i++) {
        if (strstr(test->name, names[i])) {
            return true;
        }
    }
    return n_names == 0;
}

static void run_current(void) {
    if (before_each) {
        before_each();
    }
    current_test->run();
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (const struct check_test *test = first_test; test; test = test->next) {
            puts(test->name);
        }
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    watch_for_crashes();

    int n_passed = 0, n_failed = 0, n_skipped = 0;
    for (current_test = first_test; current_test; current_test = current_test->next) {
        if (!chosen(current_test, argc - 1, argv + 1)) {
            continue;
        }
        atomic_store(&failures, 0);
        skipped = false;
        early_end_call(run_current);
        int n = atomic_load(&failures);
        if (n > MAX_DETAILS) {
            printf("     and %d more failed checks\n", n - MAX_DETAILS);
        }
        if (n > 0) {
            n_failed++;
            printf("FAIL %s\n", current_test->name);
        } else if (skipped) {
            n_skipped++;
            printf("skip %s: %s\n", current_test->name, skip_reason);
        } else {
            n_passed++;
            printf("ok   %s\n", current_test->name);
        }
    }
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0 ? 1 : 0;
}
