/* Every priority in [0, 1] that is a bfloat16 and a multiple of 2^-24, as drawn, in every class. */
#include "retrieval/cells.h"

#include <stdlib.h>
#include <string.h>

/* Zero, and the patterns from that of 2^-24 to that of 1. */
enum { SMALLEST = 0x3380, LARGEST = 0x3F80, PRIORITIES = LARGEST - SMALLEST + 2 };
enum { BYTES_MAX = 256 << 20 };

struct retrieval_cells {
    size_t classes, width;
    uint16_t *rows[2]; /* [PRIORITIES][classes][width], by retrieval_projection */
};

static size_t values_of(size_t classes, size_t width) { return PRIORITIES * classes * width; }

bool retrieval_cells_pay(const retrieval_config *config) {
    return config->precision == RETRIEVAL_BF16_PRODUCTS &&
           values_of(config->classes, config->width) <= BYTES_MAX / (2 * sizeof(uint16_t));
}

static size_t place_of(float priority) {
    uint32_t bits;
    memcpy(&bits, &priority, sizeof bits);
    return bits >> 16 < SMALLEST ? 0 : (bits >> 16) - SMALLEST + 1;
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

/* What computing one priority in every class needs. */
typedef struct filler {
    retrieval_model model; /* as multiplied */
    float *multiplied, *table, *priority, *buffers[3];
    uint16_t *class_of;
} filler;

static void fill_place(retrieval_cells *cells, filler *f, size_t place, retrieval_projection of) {
    size_t classes = cells->classes, width = cells->width;
    for (size_t c = 0; c < classes; c++)
        f->priority[c] = priority_at(place);
    retrieval_item_features(&f->model, f->table, f->priority, f->class_of, classes,
                            of == RETRIEVAL_KEYS, f->buffers[0], f->buffers[1]);
    retrieval_item_rows(&f->model, of, f->buffers[1], classes, f->buffers[0], f->buffers[2]);
    keep(f->buffers[2], classes * width, cells->rows[of] + place * classes * width);
}

static bool fill(retrieval_cells *cells, const retrieval_model *model) {
    size_t classes = cells->classes, width = cells->width;
    filler f = {.multiplied = nn_floats(model->layout.count),
                .table = nn_floats((classes + 1) * width),
                .priority = nn_floats(classes),
                .class_of = calloc(classes, sizeof *f.class_of)};
    bool is_good = f.multiplied && f.table && f.priority && f.class_of;
    for (size_t i = 0; i < 3; i++)
        is_good = (f.buffers[i] = nn_floats(classes * width)) != NULL && is_good;
    if (is_good) {
        f.model = retrieval_as_multiplied(model, f.multiplied);
        retrieval_class_table(&f.model, f.table);
        for (size_t c = 0; c < classes; c++)
            f.class_of[c] = (uint16_t)c;
        for (size_t place = 0; place < PRIORITIES; place++) {
            fill_place(cells, &f, place, RETRIEVAL_KEYS);
            fill_place(cells, &f, place, RETRIEVAL_VALUES);
        }
    }
    for (size_t i = 0; i < 3; i++)
        free(f.buffers[i]);
    free(f.class_of);
    free(f.priority);
    free(f.table);
    free(f.multiplied);
    return is_good;
}

retrieval_cells *retrieval_cells_create(const retrieval_model *model) {
    size_t classes = model->layout.classes, width = model->layout.width;
    retrieval_cells *cells = calloc(1, sizeof *cells);
    if (!cells)
        return NULL;
    cells->classes = classes;
    cells->width = width;
    for (size_t i = 0; i < 2; i++)
        cells->rows[i] = malloc(values_of(classes, width) * sizeof *cells->rows[i]);
    if (cells->rows[0] && cells->rows[1] && fill(cells, model))
        return cells;
    retrieval_cells_destroy(cells);
    return NULL;
}

void retrieval_cells_destroy(retrieval_cells *cells) {
    if (!cells)
        return;
    free(cells->rows[1]);
    free(cells->rows[0]);
    free(cells);
}

void retrieval_cells_look_up(const retrieval_cells *cells, retrieval_projection of,
                             const float *priority, const uint16_t *class_of, size_t items,
                             float *rows) {
    size_t width = cells->width;
    for (size_t i = 0; i < items; i++) {
        size_t cell = place_of(priority[i]) * cells->classes + class_of[i];
        const uint16_t *from = cells->rows[of] + cell * width;
        for (size_t j = 0; j < width; j++) {
            uint32_t bits = (uint32_t)from[j] << 16;
            memcpy(&rows[i * width + j], &bits, sizeof bits);
        }
    }
}
