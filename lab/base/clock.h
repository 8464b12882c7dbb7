/* Time: one clock for measuring, one for display. */
#ifndef WHET_LAB_CLOCK_H
#define WHET_LAB_CLOCK_H

#include <stddef.h>

/* Seconds on a clock that only goes forward. */
double lab_now(void);

enum { LAB_TIME_SIZE = 32 };

/* The time of day as "2025-01-31T23:59:59Z". */
const char *lab_time_of_day(char text[LAB_TIME_SIZE]);

/* A duration for people: "42 s", "3 min 20 s", "1 h 12 min", "9 days". */
const char *lab_duration(double seconds, char text[LAB_TIME_SIZE]);

#endif
