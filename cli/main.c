/*
 * The program `whet`: finds the subcommand in a table, runs it, and makes sure
 * that what it printed has really been written. Everything else is in the
 * subcommand's own file.
 */
#define _POSIX_C_SOURCE 200809L

#include "base/signals.h"
#include "command_table.h"
#include "messages.h"
#include "whet.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Preferences may stand before the command: whet --quiet reproduce. */
static int run_command(int argc, char **argv) {
    int first = 1;
    options_result result = OPTIONS_GIVEN;
    while (first < argc && take_preference(argc, argv, &first, &result)) {
        if (result != OPTIONS_GIVEN)
            return options_status(result);
        first++;
    }
    if (argc < 1)
        return STATUS_MISUSE;
    if (first >= argc)
        return command_help(1, argv);
    argc -= first;
    argv += first;
    const subcommand *found = find_command(argv[0]);
    if (found)
        name_command(found->name);
    if (whet_isa_check() != WHET_OK) {
        complain("%s", whet_last_error());
        return STATUS_MISUSE;
    }
    if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0) {
        print_version();
        return STATUS_OK;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
        return command_help(argc, argv);
    return found ? found->run(argc, argv) : unknown_command(argv[0]);
}

/*
 * A program started with standard output closed would get that number for the
 * next file it opens and print into it. Holding the place with a descriptor of
 * the wrong direction turns this into an honest error.
 */
static bool hold_standard_descriptors(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF)
            continue;
        if (open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor)
            return false;
    }
    return true;
}

/* Writes what is still buffered; errno is that of the write which failed. */
static int finish_output(int status) {
    bool had_failed = ferror(stdout) != 0;
    int reason = errno;
    if (fclose(stdout) == 0 && !had_failed)
        return status;
    complain("standard output: cannot write: %s", strerror(had_failed ? reason : errno));
    return status == STATUS_OK ? STATUS_FAILED : status;
}

int main(int argc, char **argv) {
    if (!hold_standard_descriptors())
        return STATUS_FAILED;
    /* Characters follow the user's locale; numbers keep the decimal point of C. */
    setlocale(LC_CTYPE, "");
    /* A file beyond `ulimit -f` is an error of write, as a full disk is. */
    signal(SIGXFSZ, SIG_IGN);
    int status = finish_output(run_command(argc, argv));
    return status == STATUS_STOPPED ? 128 + lab_interrupt_number() : status;
}
