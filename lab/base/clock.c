/* Time. */
#define _POSIX_C_SOURCE 200809L

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

double lab_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *lab_time_of_day(char text[LAB_TIME_SIZE]) {
    time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || strftime(text, LAB_TIME_SIZE, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(text, LAB_TIME_SIZE, "unknown");
    return text;
}

const char *lab_duration(double seconds, char text[LAB_TIME_SIZE]) {
    if (!(seconds >= 0 && seconds < 1e9)) {
        snprintf(text, LAB_TIME_SIZE, "?");
        return text;
    }
    long whole = lround(seconds);
    if (whole < 60)
        snprintf(text, LAB_TIME_SIZE, "%ld s", whole);
    else if (whole < 3600)
        snprintf(text, LAB_TIME_SIZE, "%ld min %ld s", whole / 60, whole % 60);
    else if (whole < 48 * 3600L)
        snprintf(text, LAB_TIME_SIZE, "%ld h %ld min", whole / 3600, whole / 60 % 60);
    else
        snprintf(text, LAB_TIME_SIZE, "%ld days", (whole + 43200) / 86400);
    return text;
}
