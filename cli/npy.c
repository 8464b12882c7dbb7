/*
 * The reader of .npy files. Headers are hostile: every size is checked for
 * overflow, and memory grows with the bytes that are there, not with those that
 * the header promises.
 */
#include "npy.h"

#include "base/checked.h"
#include "isa/half.h"
#include "parse_rows.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum {
    PRELUDE = 8,              /* the magic bytes and the version */
    HEADER_MAX = 1 << 16,     /* bytes of the dictionary */
    EMPTY_ROWS_MAX = 1000000, /* rows without entries: no data stands behind them */
};

__attribute__((format(printf, 2, 3))) static bool refuse(row_error *error, const char *format,
                                                         ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(error->message, sizeof error->message, format, values);
    va_end(values);
    error->line = 0;
    return false;
}

/* ---- The dictionary -------------------------------------------------------- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_white(cursor *from) {
    while (from->at < from->end && (*from->at == ' ' || *from->at == '\n' || *from->at == '\t'))
        from->at++;
}

/* Takes a character that follows perhaps after white space. */
static bool take(cursor *from, char c) {
    skip_white(from);
    bool is_there = from->at < from->end && *from->at == c;
    from->at += is_there;
    return is_there;
}

static bool take_word(cursor *from, const char *word) {
    size_t length = strlen(word);
    skip_white(from);
    bool is_there = (size_t)(from->end - from->at) >= length && memcmp(from->at, word, length) == 0;
    from->at += is_there ? length : 0;
    return is_there;
}

/* A text in either kind of quotes, without escapes. */
static bool take_text(cursor *from, const char **text, size_t *length) {
    char quote = take(from, '\'') ? '\'' : '"';
    if (quote == '"' && !take(from, '"'))
        return false;
    const char *end = memchr(from->at, quote, (size_t)(from->end - from->at));
    if (!end)
        return false;
    *text = from->at;
    *length = (size_t)(end - from->at);
    from->at = end + 1;
    return true;
}

static bool take_size(cursor *from, size_t *size) {
    skip_white(from);
    const char *first = from->at;
    *size = 0;
    for (; from->at < from->end && *from->at >= '0' && *from->at <= '9'; from->at++)
        if (!size_multiply(*size, 10, size) || !size_add(*size, (size_t)(*from->at - '0'), size))
            return false;
    return from->at > first;
}

/* A tuple: (), (3,), (3, 4) or (3L, 4L), which Python 2 wrote. */
static bool take_shape(cursor *from, npy_header *header, row_error *error) {
    header->axes = 0;
    if (!take(from, '('))
        return refuse(error, "not a valid .npy header: the shape is not a tuple");
    while (!take(from, ')')) {
        if (header->axes == NPY_AXES_MAX)
            return refuse(error, "more than %d axes", NPY_AXES_MAX);
        if (!take_size(from, &header->shape[header->axes++]))
            return refuse(error, "not a valid .npy header: wrong or too large a size in the shape");
        take(from, 'L');
        bool is_last = !take(from, ',');
        skip_white(from);
        if (is_last && !(from->at < from->end && *from->at == ')'))
            return refuse(error, "not a valid .npy header: the shape is not a tuple");
    }
    return true;
}

static bool is_big_endian_machine(void) {
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 0;
}

/* "<f4": the byte order, the kind and the bytes of an element. */
static bool take_type(cursor *from, npy_header *header, row_error *error) {
    const char *text = NULL;
    size_t length = 0;
    if (!take_text(from, &text, &length))
        return refuse(error, "elements are not numbers; supported: f2, f4, f8 and integers");
    bool is_known = length == 3 && strchr("<>=|", text[0]) && strchr("fiu", text[1]) &&
                    strchr(text[1] == 'f' ? "248" : "1248", text[2]);
    for (size_t i = 0; i < length; i++)
        is_known = is_known && text[i] != '\0';
    if (!is_known) {
        int shown = length > 12 ? 12 : (int)length;
        for (int i = 0; i < shown; i++)
            if (text[i] < ' ' || text[i] > '~')
                shown = i;
        return refuse(error, "unsupported element type '%.*s'; supported: f2, f4, f8 and integers",
                      shown, text);
    }
    header->kind = text[1];
    header->item_size = (size_t)(text[2] - '0');
    header->is_big_endian = text[0] == '>' || (text[0] == '=' && is_big_endian_machine());
    return true;
}

static bool take_order(cursor *from, npy_header *header, row_error *error) {
    header->is_fortran = take_word(from, "True");
    return header->is_fortran || take_word(from, "False") ||
           refuse(error, "not a valid .npy header: fortran_order is neither True nor False");
}

typedef bool take_member(cursor *from, npy_header *header, row_error *error);

static const struct npy_member {
    const char *name;
    take_member *take;
} members[] = {{"descr", take_type}, {"fortran_order", take_order}, {"shape", take_shape}};

enum { MEMBERS = sizeof members / sizeof members[0], ALL_MEMBERS = (1 << MEMBERS) - 1 };

/* 'name': value; a bit of *seen for each name. */
static bool take_entry(cursor *from, npy_header *header, unsigned *seen, row_error *error) {
    const char *name = NULL;
    size_t length = 0;
    if (!take_text(from, &name, &length) || !take(from, ':'))
        return refuse(error, "not a valid .npy header: expected a key");
    for (size_t i = 0; i < MEMBERS; i++)
        if (length == strlen(members[i].name) && memcmp(name, members[i].name, length) == 0) {
            if (*seen & 1u << i)
                return refuse(error, "not a valid .npy header: '%s' twice", members[i].name);
            *seen |= 1u << i;
            return members[i].take(from, header, error);
        }
    return refuse(error, "not a valid .npy header: unknown key");
}

/* Rows, entries and bytes from the shape. */
static bool measure(npy_header *header, row_error *error) {
    header->n = header->axes ? header->shape[header->axes - 1] : 1;
    header->rows = 1;
    bool fits = true;
    for (size_t i = 0; i + 1 < header->axes; i++)
        fits = fits && size_multiply(header->rows, header->shape[i], &header->rows);
    fits = fits && size_multiply(header->rows, header->n, &header->bytes) &&
           size_multiply(header->bytes, header->item_size, &header->bytes);
    if (!fits)
        return refuse(error, "the shape is too large");
    if (header->n == 0 && header->rows > EMPTY_ROWS_MAX)
        return refuse(error, "more than %d rows without entries", EMPTY_ROWS_MAX);
    return true;
}

bool parse_npy_header(const char *text, size_t length, npy_header *header, row_error *error) {
    cursor from = {text, text + length};
    unsigned seen = 0;
    *header = (npy_header){.kind = 0};
    if (!take(&from, '{'))
        return refuse(error, "not a valid .npy header: no dictionary");
    while (!take(&from, '}')) {
        if (!take_entry(&from, header, &seen, error))
            return false;
        skip_white(&from);
        if (!take(&from, ',') && !(from.at < from.end && *from.at == '}'))
            return refuse(error, "not a valid .npy header: expected ',' or '}'");
    }
    skip_white(&from);
    if (from.at != from.end)
        return refuse(error, "not a valid .npy header: something follows the dictionary");
    for (size_t i = 0; i < MEMBERS; i++)
        if (!(seen & 1u << i))
            return refuse(error, "not a valid .npy header: '%s' is missing", members[i].name);
    return measure(header, error);
}

/* ---- The file -------------------------------------------------------------- */

/* The file as a whole is wrong, for a reason that `refuse` has noted. */
static row_result malformed(bool is_fine) { return is_fine ? ROW_PARSED : ROW_MALFORMED; }

/* Waits for `count` bytes. */
static row_result need(input *in, size_t count, const char *what, row_error *error) {
    row_result result = row_result_of(input_at_least(in, count));
    if (result != ROW_NONE)
        return result;
    return malformed(
        refuse(error, "truncated %s (%zu of at least %zu bytes)", what, input_left(in), count));
}

/* A little-endian number. */
static size_t size_at(const char *bytes, size_t count) {
    size_t value = 0;
    for (size_t i = count; i-- > 0;)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

/* Entries of one row lie apart: nothing can be answered before everything has been read. */
static bool is_read_whole(const npy_header *header) {
    return header->is_fortran && header->rows > 1;
}

/* Bytes to have in memory for the next row; with rows > 0 a row is no larger than the array. */
static size_t bytes_needed(const npy_header *header) {
    return is_read_whole(header) ? header->bytes : header->n * header->item_size;
}

static row_result check_limit(const npy_rows *npy, row_error *error) {
    const npy_header *header = &npy->header;
    size_t needed = bytes_needed(header);
    if (header->rows == 0 || needed <= npy->limit)
        return ROW_PARSED;
    return malformed(refuse(error,
                            is_read_whole(header)
                                ? "an array in Fortran order of more than %zu bytes; "
                                  "--max-line sets the limit"
                                : "rows of more than %zu bytes; --max-line sets the limit",
                            npy->limit));
}

static row_result read_header(npy_rows *npy, input *in, row_error *error) {
    static const char magic[] = "\x93NUMPY";
    enum { MAGIC = sizeof magic - 1 };
    row_result result = row_result_of(input_at_least(in, PRELUDE));
    if (result != ROW_PARSED && result != ROW_NONE)
        return result;
    if (result == ROW_NONE || memcmp(in->buffer + in->start, magic, MAGIC) != 0)
        return malformed(refuse(error, "not an .npy file"));
    unsigned version = (unsigned char)in->buffer[in->start + MAGIC];
    if (version < 1 || version > 3 || in->buffer[in->start + MAGIC + 1] != 0)
        return malformed(refuse(error, "unsupported .npy version %u.%u; supported: 1.0 to 3.0",
                                version, (unsigned char)in->buffer[in->start + MAGIC + 1]));
    size_t width = version == 1 ? 2 : 4; /* bytes of the dictionary's length */
    if ((result = need(in, PRELUDE + width, "header", error)) != ROW_PARSED)
        return result;
    size_t length = size_at(in->buffer + in->start + PRELUDE, width);
    if (length > HEADER_MAX)
        return malformed(
            refuse(error, ".npy header too long (%zu bytes; at most %d)", length, HEADER_MAX));
    if ((result = need(in, PRELUDE + width + length, "header", error)) != ROW_PARSED)
        return result;
    in->start += PRELUDE + width;
    if (!parse_npy_header(in->buffer + in->start, length, &npy->header, error))
        return ROW_MALFORMED;
    in->start += length;
    return check_limit(npy, error);
}

/* ---- Elements -------------------------------------------------------------- */

static double float_value(uint64_t bits, size_t size) {
    if (size == 2)
        return (double)half_to_float((uint16_t)bits);
    if (size == 4) {
        uint32_t low = (uint32_t)bits;
        float value;
        memcpy(&value, &low, sizeof value);
        return (double)value;
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One element. Integers are rounded to a float here, from which a double does not differ: rounding
 * to a double first would round those of 64 bits twice. */
static double item_value(const npy_header *header, const char *bytes) {
    size_t size = header->item_size;
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++)
        bits = bits << 8 | (unsigned char)bytes[header->is_big_endian ? i : size - 1 - i];
    if (header->kind == 'f')
        return float_value(bits, size);
    const unsigned char top = (unsigned char)bytes[header->is_big_endian ? 0 : size - 1];
    bool is_negative = header->kind == 'i' && top >= 0x80;
    if (!is_negative)
        return (double)(float)bits;
    uint64_t magnitude = ~bits + 1; /* of the low bytes */
    return -(double)(float)(size < 8 ? magnitude & ((UINT64_C(1) << 8 * size) - 1) : magnitude);
}

/* Where the row's first element is, counted in elements, in Fortran order. */
static size_t fortran_start(const npy_header *header, size_t row) {
    size_t start = 0, stride = header->rows;
    for (size_t axis = header->axes - 1; axis-- > 0;) {
        stride /= header->shape[axis];
        start += row % header->shape[axis] * stride;
        row /= header->shape[axis];
    }
    return start;
}

static row_result convert_row(const npy_rows *npy, const char *bytes, row_values *row,
                              row_error *error) {
    const npy_header *header = &npy->header;
    size_t at = is_read_whole(header) ? fortran_start(header, npy->done) : 0;
    size_t step = is_read_whole(header) ? header->rows : 1;
    row->n = 0;
    row->number = npy->done + 1;
    for (size_t i = 0; i < header->n; i++, at += step) {
        double value = item_value(header, bytes + at * header->item_size);
        if (isfinite(value) && !isfinite((float)value))
            return malformed(refuse(error,
                                    "row %zu, entry %zu: %g is out of the range of a 32-bit float",
                                    row->number, i + 1, value));
        if (!append_value(row, (float)value))
            return ROW_NO_MEMORY;
    }
    return ROW_PARSED;
}

bool has_npy_row(const npy_rows *npy, const input *in) {
    return npy->has_header && npy->done < npy->header.rows &&
           input_left(in) >= bytes_needed(&npy->header);
}

/* Nothing follows the last row. */
static row_result finish(input *in, row_error *error) {
    row_result result = row_result_of(input_at_least(in, 1));
    if (result != ROW_PARSED)
        return result;
    return malformed(refuse(error, "unexpected data after the array that the header describes"));
}

row_result next_npy_row(npy_rows *npy, input *in, row_values *row, row_error *error) {
    const npy_header *header = &npy->header;
    row_result result = npy->has_header ? ROW_PARSED : read_header(npy, in, error);
    if (result != ROW_PARSED)
        return result;
    npy->has_header = true;
    if (npy->done == header->rows)
        return finish(in, error);
    result = need(in, bytes_needed(header), "data", error);
    if (result == ROW_PARSED)
        result = convert_row(npy, in->buffer + in->start, row, error);
    if (result != ROW_PARSED)
        return result;
    npy->done++;
    if (!is_read_whole(header) || npy->done == header->rows)
        in->start += bytes_needed(header);
    return ROW_PARSED;
}
