/* A table for the terminal. Widths count characters of UTF-8, not bytes. */
#include "base/table.h"

#include "base/grow.h"

#include <stdarg.h>
#include <stdlib.h>

enum { GAP = 2 };

lab_table lab_table_start(size_t columns) { return (lab_table){.columns = columns}; }

static bool reserve_memory(lab_table *table) {
    char **cells = lab_grow(table->cells, sizeof *cells, table->count + 1, &table->capacity);
    if (cells)
        table->cells = cells;
    return cells != NULL;
}

void lab_table_add(lab_table *table, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *cell = length < 0 || !reserve_memory(table) ? NULL : malloc((size_t)length + 1);
    if (!cell) {
        table->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(cell, (size_t)length + 1, format, arguments);
    va_end(arguments);
    table->cells[table->count++] = cell;
}

static int width_of(const char *text) {
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static int column_width(const lab_table *table, size_t column) {
    int widest = 0;
    for (size_t i = column; i < table->count; i += table->columns) {
        int width = width_of(table->cells[i]);
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void print_row(const lab_table *table, size_t first, const int *widths, FILE *file) {
    int owed = 0; /* pending blanks, so that no line ends in them */
    for (size_t column = 0; column < table->columns && first + column < table->count; column++) {
        const char *cell = table->cells[first + column];
        int blanks = widths[column] - width_of(cell);
        if (*cell)
            fprintf(file, "%*s%s", owed + (column ? blanks + GAP : 0), "", cell);
        owed = *cell ? 0 : owed;
        if (column == 0)
            owed = blanks;
        else if (!*cell)
            owed += blanks + GAP;
    }
    fputc('\n', file);
}

bool lab_table_finish(lab_table *table, FILE *file) {
    int *widths = malloc((table->columns + 1) * sizeof *widths);
    bool is_whole = widths && !table->failed;
    for (size_t column = 0; is_whole && column < table->columns; column++)
        widths[column] = column_width(table, column);
    for (size_t i = 0; is_whole && i < table->count; i += table->columns)
        print_row(table, i, widths, file);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(widths);
    *table = (lab_table){.columns = table->columns};
    return is_whole;
}
