/*
 * Text that grows, and lists of numbers in it. Lists reserve memory for a whole
 * row at its widest and are then written without further checks.
 */
#include "clrs/text.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1 << 12 };

char *clrs_text_reserve(clrs_text *text, size_t bytes) {
    if (text->failed)
        return NULL;
    if (bytes < text->capacity - text->length)
        return text->data + text->length;
    size_t needed, capacity = text->capacity ? text->capacity : FIRST_CAPACITY;
    char *data = NULL;
    if (!__builtin_add_overflow(text->length, bytes, &needed) && needed <= PTRDIFF_MAX / 2) {
        while (capacity <= needed)
            capacity *= 2;
        data = realloc(text->data, capacity);
    }
    if (!data) {
        text->failed = true;
        return NULL;
    }
    text->data = data;
    text->capacity = capacity;
    return data + text->length;
}

void clrs_text_append_bytes(clrs_text *text, const char *bytes, size_t count) {
    char *to = clrs_text_reserve(text, count);
    if (!to)
        return;
    memcpy(to, bytes, count);
    text->length += count;
}

void clrs_text_append(clrs_text *text, const char *string) {
    clrs_text_append_bytes(text, string, strlen(string));
}

/* Ends a list that was written into reserved memory. */
static void advance(clrs_text *text, const char *end) { text->length = (size_t)(end - text->data); }

/* The bytes that clrs_write_int needs for values from -1 to most. */
static size_t int_width(int most) {
    size_t width = 2; /* "-1" */
    for (int rest = most / 100; rest > 0; rest /= 10)
        width++;
    return width;
}

void clrs_text_append_int(clrs_text *text, int value) {
    char *to = clrs_text_reserve(text, int_width(value) + 1);
    if (to)
        advance(text, clrs_write_int(to, value));
}

void clrs_text_append_float(clrs_text *text, clrs_floats *floats, double value) {
    char *to = clrs_text_reserve(text, CLRS_FLOAT_SIZE);
    if (to)
        text->length += clrs_float_print(floats, value, to);
}

void clrs_text_append_ints(clrs_text *text, const int *values, int count, int most) {
    char *to = clrs_text_reserve(text, (size_t)count * (int_width(most) + 1) + 2);
    if (!to)
        return;
    *to++ = '[';
    for (int i = 0; i < count; i++) {
        to = clrs_write_int(to, values[i]);
        *to++ = ' ';
    }
    to[-1] = ']';
    advance(text, to);
}

void clrs_text_append_floats(clrs_text *text, clrs_floats *floats, const double *values,
                             int count) {
    char *to = clrs_text_reserve(text, (size_t)count * CLRS_FLOAT_SIZE + CLRS_FLOAT_SIZE);
    if (!to)
        return;
    *to++ = '[';
    for (int i = 0; i < count; i++) {
        to += clrs_float_print(floats, values[i], to);
        *to++ = ' ';
    }
    to[-1] = ']';
    advance(text, to);
}

static void append_flags(clrs_text *text, const uint8_t *flags, int count, bool as_floats) {
    size_t width = as_floats ? 4 : 2;
    char *to = clrs_text_reserve(text, (size_t)count * width + 2);
    if (!to)
        return;
    *to++ = '[';
    for (int i = 0; i < count; i++, to += width) {
        memcpy(to, as_floats ? "0.0 " : "0 ", width);
        to[0] = (char)('0' + flags[i]);
    }
    to[-1] = ']';
    advance(text, to);
}

static void begin_row(clrs_text *text, int row) { clrs_text_append(text, row == 0 ? "[" : ", "); }

static size_t place(int row, int size) { return (size_t)row * (size_t)size; }

void clrs_text_append_int_matrix(clrs_text *text, const int *values, int size, int most) {
    for (int row = 0; row < size; row++) {
        begin_row(text, row);
        clrs_text_append_ints(text, values + place(row, size), size, most);
    }
    clrs_text_append(text, "]");
}

void clrs_text_append_float_matrix(clrs_text *text, clrs_floats *floats, const double *values,
                                   int size) {
    for (int row = 0; row < size; row++) {
        begin_row(text, row);
        clrs_text_append_floats(text, floats, values + place(row, size), size);
    }
    clrs_text_append(text, "]");
}

void clrs_text_append_flag_matrix(clrs_text *text, const uint8_t *flags, int size, bool as_floats) {
    for (int row = 0; row < size; row++) {
        begin_row(text, row);
        append_flags(text, flags + place(row, size), size, as_floats);
    }
    clrs_text_append(text, "]");
}

bool clrs_text_terminate(clrs_text *text) {
    char *end = clrs_text_reserve(text, 1);
    if (end)
        *end = '\0';
    return end;
}

void clrs_text_free(clrs_text *text) {
    free(text->data);
    *text = (clrs_text){0};
}
