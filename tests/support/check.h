// A small test harness. Tests are written as
//
//     #include "support/check.h"
//
//     TEST(rows_sum_to_one) {
//         double sum = ...;
//         CHECK_NEAR(sum, 1.0, 1e-6);
//     }
//
// and register themselves; main() is in check.c. It needs libc only, so that a test can be linked
// statically and run under an emulator. After a failed check the test continues, so that one run
// shows everything that is wrong; REQUIRE ends the test instead. Threads started by a test may use
// CHECK, but not REQUIRE and SKIP.
//
// Every program prints one line per test: "ok   name", "skip name: reason", or details and "FAIL
// name"; and at the end "N passed, N failed, N skipped". Arguments select the tests whose names
// contain one of them; --list prints the names.
#ifndef WHET_TESTS_SUPPORT_CHECK_H
#define WHET_TESTS_SUPPORT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
};

void check_register(struct check_test *test);

// Calls a function before every test of the program; it may SKIP or REQUIRE.
void check_before_each(void (*function)(void));

bool check_that(bool passed, const char *file, int line, const char *condition);
__attribute__((format(printf, 5, 6))) bool check_message(bool passed, const char *file, int line,
                                                         const char *condition, const char *format,
                                                         ...);
bool check_near(double actual, double expected, double tolerance, const char *file, int line,
                const char *text);
bool check_int(long long actual, long long expected, const char *file, int line, const char *text);
bool check_str(const char *actual, const char *expected, const char *file, int line,
               const char *text);
_Noreturn void check_end_test(void);
__attribute__((noreturn, format(printf, 1, 2))) void check_skip(const char *format, ...);

// Begins a test; the name is a sentence with underscores.
#define TEST(name)                                                                                 \
    static void check_run_##name(void);                                                            \
    __attribute__((constructor)) static void check_register_##name(void) {                         \
        static struct check_test test = {#name, check_run_##name, 0};                              \
        check_register(&test);                                                                     \
    }                                                                                              \
    static void check_run_##name(void)

// Each of these is also an expression, true if the check passed.
#define CHECK(condition) check_that((condition) ? true : false, __FILE__, __LINE__, #condition)
#define CHECK_MSG(condition, ...)                                                                  \
    check_message((condition) ? true : false, __FILE__, __LINE__, #condition, __VA_ARGS__)

// |actual - expected| <= tolerance. Equal infinities are near each other, and NaN is near NaN only.
#define CHECK_NEAR(actual, expected, tolerance)                                                    \
    check_near((double)(actual), (double)(expected), (double)(tolerance), __FILE__, __LINE__,      \
               #actual)
#define CHECK_INT(actual, expected)                                                                \
    check_int((long long)(actual), (long long)(expected), __FILE__, __LINE__, #actual)
#define CHECK_STR(actual, expected) check_str((actual), (expected), __FILE__, __LINE__, #actual)

// A check that the rest of the test depends on.
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!CHECK(condition)) {                                                                   \
            check_end_test();                                                                      \
        }                                                                                          \
    } while (0)

// Compares bits, for NaN, the sign of zero and memory that must not change.
static inline bool same_bytes(const void *a, const void *b, size_t bytes) {
    return bytes == 0 || (a && b && memcmp(a, b, bytes) == 0);
}

// Ends the test and lists it as skipped, with a reason (a printf format).
#define SKIP(...) check_skip(__VA_ARGS__)

#endif
