/* Reads the table that was built into the program, line by line. */
#include "report/published_clrs.h"

#include "published_clrs_csv.h" /* made from published_clrs.csv */

#include <stdio.h>
#include <string.h>

/* A line of the table that is about this algorithm. */
static bool read_point(const char *line, const char *algorithm, published_clrs_point *point) {
    size_t length = strlen(algorithm);
    int trained;
    if (strncmp(line, algorithm, length) != 0 || line[length] != ',' ||
        sscanf(line + length, ",%d,%d,%lf", &point->length, &trained, &point->tuned) != 3)
        return false;
    point->is_trained = trained != 0;
    return true;
}

size_t published_clrs(const char *algorithm, published_clrs_point points[PUBLISHED_CLRS_MAX]) {
    size_t count = 0;
    for (const char *line = published_clrs_csv; line && count < PUBLISHED_CLRS_MAX;) {
        count += read_point(line, algorithm, &points[count]);
        line = strchr(line, '\n');
        line = line && line[1] ? line + 1 : NULL;
    }
    return count;
}
