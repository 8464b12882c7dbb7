/* A table for the terminal: cells are added one by one, columns are as wide as needed. */
#ifndef WHET_LAB_TABLE_H
#define WHET_LAB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct lab_table {
    size_t columns;
    size_t count; /* cells, row after row; the first row is the header */
    size_t capacity;
    char **cells;
    bool failed; /* memory ran out */
} lab_table;

lab_table lab_table_start(size_t columns);

/* Adds the next cell, formatted as by printf. */
__attribute__((format(printf, 2, 3))) void lab_table_add(lab_table *table, const char *format, ...);

/* Prints and frees. The first column is flush left, the others flush right. False if memory ran
 * out. */
bool lab_table_finish(lab_table *table, FILE *file);

#endif
