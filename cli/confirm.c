/* The question before long work: on a terminal, or --yes. */
#include "confirm.h"

#include "commands.h"
#include "messages.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

int confirm_seconds(double seconds, const char *parts, bool is_confirmed) {
    const double limit = 15 * 60;
    char time[LAB_TIME_SIZE];
    if (is_confirmed || seconds <= limit)
        return STATUS_OK;
    lab_duration(seconds, time);
    const char *open = *parts ? " (" : "", *close = *parts ? ")" : "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        complain("this takes about %s on this machine%s%s%s; add --yes to start it", time, open,
                 parts, close);
        return STATUS_MISUSE;
    }
    fprintf(stderr,
            "This takes about %s on this machine%s%s%s.\nIt can be stopped with Ctrl-C and "
            "continued later. Start? [y/N] ",
            time, open, parts, close);
    fflush(stderr);
    char answer[16] = "";
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return STATUS_OK;
    complain("not started");
    return STATUS_FAILED;
}
