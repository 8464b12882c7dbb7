/* Every priority in [0, 1] that is a bfloat16 and a multiple of 2^-24, as drawn, in every class. */
#include "retrieval/cells.h"

#include "base/signals.h"

#include <stdlib.h>
#include <string.h>

/* Zero, and the patterns from that of 2^-24 to that of 1. */
enum { SMALLEST = 0x3380, LARGEST = 0x3F80, PRIORITIES = LARGEST - SMALLEST + 2 };
enum { BYTES_MAX = 1 << 30 }; /* of all heads */

struct retrieval_cells {
    size_t classes, width;
    uint16_t *values, *keys; /* [PRIORITIES][classes][width]; shared where they are the same */
};

static size_t values_of(size_t classes, size_t width) { return PRIORITIES * classes * width; }

bool retrieval_cells_pay(const retrieval_config *config, size_t heads, double items) {
    double values = (double)values_of(config->classes, config->width);
    return config->precision == RETRIEVAL_BF16_PRODUCTS &&
           values * (double)heads <= (double)BYTES_MAX / (2 * sizeof(uint16_t)) &&
           items > (double)(PRIORITIES * config->classes);
}

static size_t place_of(float priority) {
    uint32_t bits;
    memcpy(&bits, &priority, sizeof bits);
    uint32_t pattern = bits >> 16 < LARGEST ? bits >> 16 : LARGEST;
    return pattern < SMALLEST ? 0 : pattern - SMALLEST + 1;
}

static float priority_at(size_t place) {
    uint32_t bits = place == 0 ? 0 : (uint32_t)(SMALLEST + place - 1) << 16;
    float priority;
    memcpy(&priority, &bits, sizeof priority);
    return priority;
}

static void keep(const float *rows, size_t count, uint16_t *to) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &rows[i], sizeof bits);
        to[i] = (uint16_t)(bits >> 16);
    }
}

/* Scratch for one priority in every class. */
typedef struct filler {
    retrieval_model model; /* rounded for products */
    float *multiplied, *table, *priority, *deeper, *features, *states;
    uint16_t *class_of;
} filler;

static void fill_place(const filler *f, size_t place, bool as_key, uint16_t *cells) {
    size_t classes = f->model.layout.classes, width = f->model.layout.width;
    for (size_t c = 0; c < classes; c++)
        f->priority[c] = priority_at(place);
    retrieval_item_features(&f->model, f->table, f->priority, f->class_of, classes, as_key,
                            f->deeper, f->features);
    retrieval_item_states(&f->model, f->features, classes, f->states);
    keep(f->states, classes * width, cells + place * classes * width);
}

static bool reserve(filler *f, const retrieval_layout *at) {
    f->multiplied = nn_floats(at->count);
    f->table = nn_floats((at->classes + 1) * at->width);
    f->priority = nn_floats(at->classes);
    f->deeper = nn_floats(at->classes * at->width);
    f->features = nn_floats(at->classes * at->width);
    f->states = nn_floats(at->classes * at->width);
    f->class_of = calloc(at->classes, sizeof *f->class_of);
    return f->multiplied && f->table && f->priority && f->deeper && f->features && f->states &&
           f->class_of;
}

static bool fill(const retrieval_cells *cells, const retrieval_model *model) {
    filler f = {.table = NULL};
    bool is_good = reserve(&f, &model->layout);
    if (is_good) {
        f.model = retrieval_as_multiplied(model, f.multiplied);
        retrieval_class_table(&f.model, f.table);
        for (size_t c = 0; c < cells->classes; c++)
            f.class_of[c] = (uint16_t)c;
        for (size_t place = 0; place < PRIORITIES && !lab_interrupted(); place++) {
            fill_place(&f, place, false, cells->values);
            if (cells->keys != cells->values)
                fill_place(&f, place, true, cells->keys);
        }
    }
    free(f.class_of);
    free(f.states);
    free(f.features);
    free(f.deeper);
    free(f.priority);
    free(f.table);
    free(f.multiplied);
    return is_good;
}

retrieval_cells *retrieval_cells_create(const retrieval_model *model) {
    size_t classes = model->layout.classes, width = model->layout.width;
    size_t bytes = values_of(classes, width) * sizeof(uint16_t);
    retrieval_cells *cells = calloc(1, sizeof *cells);
    if (!cells)
        return NULL;
    cells->classes = classes;
    cells->width = width;
    cells->values = malloc(bytes);
    cells->keys = model->config.key_sees_class ? cells->values : malloc(bytes);
    if (cells->values && cells->keys && fill(cells, model))
        return cells;
    retrieval_cells_destroy(cells);
    return NULL;
}

void retrieval_cells_destroy(retrieval_cells *cells) {
    if (!cells)
        return;
    if (cells->keys != cells->values)
        free(cells->keys);
    free(cells->values);
    free(cells);
}

/* Floats from their upper halves. Eight at a time: compilers that know neither the width nor that
 * nothing overlaps take them one by one. */
static void widen(const uint16_t *from, size_t width, float *to) {
    typedef uint16_t halves __attribute__((vector_size(16)));
    typedef uint32_t wholes __attribute__((vector_size(32)));
    size_t j = 0;
    for (; j + 8 <= width; j += 8) {
        halves half;
        memcpy(&half, from + j, sizeof half);
        wholes whole = __builtin_convertvector(half, wholes) << 16;
        memcpy(to + j, &whole, sizeof whole);
    }
    for (; j < width; j++) {
        uint32_t bits = (uint32_t)from[j] << 16;
        memcpy(to + j, &bits, sizeof bits);
    }
}

static void fetch(const uint16_t *row, size_t width) {
    for (size_t j = 0; j < width; j += 32) /* a cache line */
        __builtin_prefetch(row + j);
}

void retrieval_cells_look_up(const retrieval_cells *cells, bool as_key, const float *priority,
                             const uint16_t *class_of, size_t items, float *h) {
    enum { AHEAD = 6 }; /* rows under way while one is copied: they lie anywhere in megabytes */
    const uint16_t *rows = as_key ? cells->keys : cells->values;
    size_t width = cells->width, next = 0;
    for (size_t i = 0; i < items; i++) {
        for (; next < items && next <= i + AHEAD; next++)
            fetch(rows + (place_of(priority[next]) * cells->classes + class_of[next]) * width,
                  width);
        size_t cell = place_of(priority[i]) * cells->classes + class_of[i];
        widen(rows + cell * width, width, h + i * width);
    }
}
