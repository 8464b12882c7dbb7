/* Reads the table that was built into the program, line by line. */
#include "report/published_clrs.h"

#include "published_clrs_csv.h" /* made from published_clrs.csv */

#include <stdlib.h>
#include <string.h>

/* A line of the table that is about this algorithm: "bfs,4,1,0.969,...". */
static bool read_point(const char *line, const char *algorithm, published_clrs_point *point) {
    size_t length = strlen(algorithm);
    char *end;
    if (strncmp(line, algorithm, length) != 0 || line[length] != ',')
        return false;
    point->length = (int)strtol(line + length + 1, &end, 10);
    if (*end != ',')
        return false;
    point->is_trained = end[1] == '1';
    if (end[1] == '\0' || end[2] != ',')
        return false;
    const char *number = end + 3;
    point->tuned = strtod(number, &end);
    return end != number;
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
