/*
 * The trace as text. The first state goes to the question and the others to the
 * answer, as they are recorded; the last one is replaced by the output. A state
 * that is the same as before, as most are, is copied instead of being printed
 * again.
 */
#include "clrs/trace.h"

#include <string.h>

void clrs_trace_begin(clrs_run *run) {
    run->trace = (clrs_trace){0};
    if (!run->hints)
        return;
    /* A matrix, or a vector and one more: the table's memory has a square for algorithms with a
     * matrix to print, and those print nothing else. */
    run->trace.values = run->entry->squares > 0 ? clrs_square(run) : clrs_vector(run);
}

static size_t value_count(clrs_state state) {
    size_t size = (size_t)state.size;
    switch (state.kind) {
    case CLRS_STATE_MATRIX:
        return size * size;
    case CLRS_STATE_LIST:
        return size + 1;
    default:
        return size;
    }
}

/* Keys, as printed in the question. */
static void append_order(clrs_run *run, clrs_text *text, const int *positions, int count) {
    char *to = clrs_text_reserve(text, ((size_t)count + 1) * (CLRS_FLOAT_SIZE + 1));
    if (!to)
        return;
    *to++ = '[';
    for (int i = 0; i < count; i++) {
        int position = positions[i], length = run->key_lengths[position];
        const char *key = run->key_texts + (size_t)position * CLRS_FLOAT_SIZE;
        /* A fixed number of bytes is copied faster than the right one. */
        if (length <= 8)
            memcpy(to, key, 8);
        else
            memcpy(to, key, CLRS_FLOAT_SIZE);
        to += length;
        *to++ = ' ';
    }
    to[-1] = ']';
    text->length = (size_t)(to - text->data);
}

static void append_state(clrs_run *run, clrs_text *text, clrs_state state) {
    switch (state.kind) {
    case CLRS_STATE_INDEX:
        clrs_text_append_int(text, state.a);
        break;
    case CLRS_STATE_PAIR:
        clrs_text_append(text, run->hints ? "(" : "");
        clrs_text_append_int(text, state.a);
        clrs_text_append(text, ", ");
        clrs_text_append_int(text, state.b);
        clrs_text_append(text, run->hints ? ")" : "");
        break;
    case CLRS_STATE_VECTOR:
        clrs_text_append_ints(text, state.values, state.size, run->n);
        break;
    case CLRS_STATE_LIST:
        clrs_text_append_ints(text, state.values, state.size, run->n);
        clrs_text_append(text, ", ");
        clrs_text_append_int(text, state.values[state.size]);
        break;
    case CLRS_STATE_MATRIX:
        clrs_text_append_int_matrix(text, state.values, state.size, run->n);
        break;
    case CLRS_STATE_ORDER:
        append_order(run, text, state.values, state.size);
        break;
    }
}

/* Appends what was printed last, which is in the question or in the answer. */
static void append_again(clrs_text *text, const clrs_text *from, size_t start, size_t length) {
    if (length == 0 || !clrs_text_reserve(text, length)) /* nothing where memory ran out */
        return;
    memcpy(text->data + text->length, from->data + start, length);
    text->length += length;
}

void clrs_trace_step(clrs_run *run, clrs_state state) {
    clrs_trace *trace = &run->trace;
    clrs_text *text = trace->steps == 0 ? &run->question : &run->answer;
    const clrs_text *before = trace->steps <= 1 ? &run->question : &run->answer;
    trace->step_start = run->answer.length;
    clrs_text_append(text, trace->steps == 0 ? ", initial_trace: " : trace->steps == 1 ? "" : ", ");
    size_t start = text->length, bytes = value_count(state) * sizeof *state.values;
    if (bytes > 0 && trace->steps > 0 && memcmp(trace->values, state.values, bytes) == 0) {
        append_again(text, before, trace->value_start, trace->value_length);
    } else {
        append_state(run, text, state);
        if (bytes > 0)
            memcpy(trace->values, state.values, bytes);
    }
    trace->value_start = start;
    trace->value_length = text->length - start;
    trace->steps++;
}

void clrs_trace_output(clrs_run *run, clrs_state state) {
    if (run->hints) {
        if (run->trace.steps > 1)
            run->answer.length = run->trace.step_start;
        clrs_text_append(&run->answer, " | ");
    }
    append_state(run, &run->answer, state);
}
