/*
 * `whet gguf`: the tensors of a GGUF file as a list, or one of them as 32-bit
 * floats in NumPy's format, whatever type it is stored in.
 */
#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "results.h"

#include "base/json.h"
#include "base/table.h"
#include "gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "gguf";

typedef struct arguments {
    const char *model;
    const char *tensor;
    const char *out;
    const char *json;
} arguments;

/* Axes as NumPy has them, the slowest first: "(64, 32)", "(32,)". */
enum { SHAPE_SIZE = 100 };
static const char *shape_text(const gguf_tensor *tensor, char text[SHAPE_SIZE]) {
    size_t length = 0;
    for (uint32_t d = tensor->n_dims; d-- > 0;)
        length += (size_t)snprintf(text + length, SHAPE_SIZE - length, "%s%llu",
                                   length ? ", " : "(", (unsigned long long)tensor->dims[d]);
    snprintf(text + length, SHAPE_SIZE - length, "%s", tensor->n_dims == 1 ? ",)" : ")");
    return text;
}

static bool print_list(const gguf_file *file) {
    char shape[SHAPE_SIZE];
    lab_table table = lab_table_start(3);
    lab_table_add(&table, "tensor");
    lab_table_add(&table, "type");
    lab_table_add(&table, "shape");
    for (uint64_t i = 0; i < file->n_tensors; i++) {
        const gguf_tensor *tensor = &file->tensors[i];
        lab_table_add(&table, "%.*s", (int)tensor->name.length, tensor->name.bytes);
        lab_table_add(&table, "%s", gguf_type_name(tensor->type));
        lab_table_add(&table, "%s", shape_text(tensor, shape));
    }
    return lab_table_finish(&table, stdout);
}

static json_t *list_json(const gguf_file *file) {
    unsigned mark = lab_json_mark();
    json_t *list = json_array();
    for (uint64_t i = 0; i < file->n_tensors; i++) {
        const gguf_tensor *tensor = &file->tensors[i];
        json_t *shape = json_array();
        for (uint32_t d = tensor->n_dims; d-- > 0;)
            json_array_append_new(shape, json_integer((json_int_t)tensor->dims[d]));
        json_array_append_new(list, json_pack("{s:s%, s:s, s:b, s:o}", "name", tensor->name.bytes,
                                              tensor->name.length, "type",
                                              gguf_type_name(tensor->type), "readable",
                                              gguf_can_dequantise(tensor->type), "shape", shape));
    }
    return lab_json_whole(list, mark);
}

/* A tensor and memory for one of its rows. */
typedef struct npy_source {
    const gguf_tensor *tensor;
    float *row;
} npy_source;

/* Version 1.0: the header ends in a newline, and the data begins at a multiple of 64. */
static void write_npy(FILE *out, const void *context) {
    const npy_source *source = context;
    char shape[SHAPE_SIZE], header[256];
    int length =
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }",
                 shape_text(source->tensor, shape));
    unsigned padded = ((unsigned)length + 1 + 10 + 63) / 64 * 64 - 10;
    const unsigned char start[] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)padded, (unsigned char)(padded >> 8)};
    fwrite(start, 1, sizeof start, out);
    fprintf(out, "%-*s\n", (int)padded - 1, header);
    for (uint64_t row = 0; row < source->tensor->rows; row++) {
        gguf_dequantise(source->tensor, row, source->row);
        fwrite(source->row, sizeof(float), source->tensor->dims[0], out);
    }
}

static int keep_tensor(const arguments *given, const gguf_file *file) {
    const gguf_tensor *tensor = gguf_find_tensor(file, given->tensor);
    if (!tensor) {
        complain("--tensor: %s has no tensor '%s'; 'whet gguf' lists them", given->model,
                 given->tensor);
        return STATUS_MISUSE;
    }
    if (!gguf_can_dequantise(tensor->type)) {
        complain("--tensor: '%s' is of type %s, which cannot be converted to floats", given->tensor,
                 gguf_type_name(tensor->type));
        return STATUS_MISUSE;
    }
    npy_source source = {tensor, malloc(tensor->dims[0] * sizeof(float))};
    if (!source.row)
        return complain_of_memory();
    int status = keep_table(given->out, write_npy, &source);
    free(source.row);
    return status;
}

static int run(const arguments *given) {
    lab_error error = {.kind = LAB_NO_ERROR};
    const char *const files[] = {given->json, given->out};
    int status = refuse_to_overwrite(given->model, files, 2);
    if (status == STATUS_OK)
        status = reserve_output(files, 2);
    if (status != STATUS_OK)
        return status;
    gguf_file *file = gguf_open(given->model, &error);
    if (!file)
        return report_lab_error(&error);
    if (given->tensor)
        status = keep_tensor(given, file);
    else if (given->json)
        status = keep_json(given->json, list_json(file));
    if (status == STATUS_OK && !given->tensor)
        status = print_list(file) ? STATUS_OK : complain_of_memory();
    gguf_close(file);
    return status;
}

int command_gguf(int argc, char **argv) {
    arguments given = {.model = NULL};
    const option_spec options[] = {
        model_option(&given.model),
        {"tensor", OPTION_TEXT, &given.tensor, "NAME", "tensor to write as 32-bit floats"},
        {"out", OPTION_TEXT, &given.out, "FILE",
         "file for the tensor, in NumPy's format .npy ('-': standard output)", .letter = 'o',
         .values = VALUE_FILE},
        json_option(&given.json, JSON_SUMMARY),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL.gguf",
        .about = "Lists the tensors of a GGUF file, or writes one of them as 32-bit floats,\n"
                 "whatever quantised type it is stored in.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "Shapes are those of NumPy: the last axis is contiguous.\n",
        .examples = "whet gguf model.gguf\n"
                    "whet gguf model.gguf --tensor token_embd.weight --out embeddings.npy\n",
        .operands_limit = 1,
        .operand_values = VALUE_FILE,
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    int status = take_model(&syntax, operands, argv, &given.model);
    if (status != STATUS_OK)
        return status;
    if (given.tensor && given.json)
        return refuse_together("json", "tensor");
    if (!given.tensor != !given.out) {
        complain("%s", given.tensor ? "--tensor needs --out FILE" : "--out needs --tensor NAME");
        return STATUS_MISUSE;
    }
    return run(&given);
}
