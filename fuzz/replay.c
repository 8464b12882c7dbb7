/*
 * Runs a fuzz target without libFuzzer, so that every compiler builds it and
 * every test run repeats what fuzzing once found: each file given, or each in a
 * folder given, and a number of variations of each that are always the same.
 * Prints one line a file and a count, like every test program.
 */
#define _POSIX_C_SOURCE 200809L

#include "input.h"
#include "whet.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VARIATIONS = 50, SIZE_MAX_VARIED = 4096, PATH_SIZE = 4096 };

static int n_passed, n_failed, n_skipped;
static const char *volatile present; /* the file under way, for the last words of a crash */

/* Only calls that are safe in a signal handler. */
static void tell_crash(void) {
    static const char before[] = "FAIL ", after[] = ": crashed\n";
    const char *name = present;
    if (name) {
        ssize_t written = write(STDOUT_FILENO, before, sizeof before - 1);
        written += write(STDOUT_FILENO, name, strlen(name));
        written += write(STDOUT_FILENO, after, sizeof after - 1);
        (void)written; /* nothing is left to be done about a failure here */
    }
}

static void on_crash(int number) {
    tell_crash();
    signal(number, SIG_DFL);
    raise(number);
}

/* Present when a sanitizer is linked in, whose own report is better than a signal handler's. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void watch_for_crashes(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    signal(SIGABRT, on_crash);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(tell_crash);
        return;
    }
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        signal(signals[i], on_crash);
    }
}

static void run(const uint8_t *data, size_t size) {
    uint8_t *exact = fuzz_copy(data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* Changes a few bytes, or takes out, repeats or cuts off some; returns the new size. */
static size_t vary(uint8_t *data, size_t size, fuzz_random *random) {
    for (uint64_t changes = 1 + fuzz_next(random) % 4; changes > 0; changes--) {
        if (size == 0) {
            return 0;
        }
        size_t at = (size_t)fuzz_next(random) % size;
        size_t length = 1 + (size_t)fuzz_next(random) % (size - at);
        switch (fuzz_next(random) % 6) {
        case 0:
            size = at;
            break;
        case 1:
            memmove(data + at, data + at + length, size - at - length);
            size -= length;
            break;
        case 2:
            if (size + length <= SIZE_MAX_VARIED) {
                memmove(data + at + length, data + at, size - at);
                size += length;
            }
            break;
        case 3:
            data[at] ^= (uint8_t)(1u << (fuzz_next(random) % 8));
            break;
        default:
            data[at] = (uint8_t)fuzz_next(random);
            break;
        }
    }
    return size;
}

static void run_variations(const uint8_t *data, size_t size) {
    uint8_t varied[SIZE_MAX_VARIED];
    if (size > sizeof varied) {
        return;
    }
    fuzz_random random = {size};
    for (int i = 0; i < VARIATIONS; i++) {
        memcpy(varied, data, size);
        run(varied, vary(varied, size, &random));
    }
}

static uint8_t *read_file(const char *path, size_t *size) {
    struct stat status;
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    uint8_t *data = NULL;
    if (fstat(fileno(file), &status) == 0) {
        data = fuzz_allocate((size_t)status.st_size);
        *size = fread(data, 1, (size_t)status.st_size, file);
    }
    fclose(file);
    return data;
}

static void replay_file(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t size = 0;
    uint8_t *data = read_file(path, &size);
    if (!data) {
        printf("     %s: %s\nFAIL %s\n", path, strerror(errno), name);
        n_failed++;
        return;
    }
    present = name;
    run(data, size);
    run_variations(data, size);
    present = NULL;
    free(data);
    printf("ok   %s\n", name);
    n_passed++;
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void replay(const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, alphasort);
    if (count < 0) {
        replay_file(path);
        return;
    }
    for (int i = 0; i < count; i++) {
        char file[PATH_SIZE];
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        replay_file(file);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv) {
    watch_for_crashes();
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    const char *wanted = getenv("WHET_ISA");
    if (wanted && strcmp(wanted, whet_isa()) != 0) {
        printf("skip seeds with %s: this processor lacks it\n", wanted);
        n_skipped++;
    }
    for (int i = 1; i < argc && n_skipped == 0; i++) {
        replay(argv[i]);
    }
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0 || n_passed + n_skipped == 0;
}
