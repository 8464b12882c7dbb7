/*
 * A sample as a line of JSON. Decimals and ties are mentioned where they are not
 * the usual ones: with them, a record says all that is needed to make it again.
 */
#include "clrs_record.h"

#include "clrs/json_text.h"

#include <inttypes.h>
#include <string.h>

static const char *const formats[] = {"jsonl", "text", NULL};

option_spec clrs_format_option(const char **format) {
    return (option_spec){"format",
                         OPTION_CHOICE,
                         format,
                         "FORM",
                         "form of the output: {}, one JSON object per line (the default) or just "
                         "question and answer",
                         .values = VALUE_WORD,
                         .words = formats};
}

static void print_settings(FILE *file, const clrs_record_form *form) {
    if (form->decimals == 0)
        fputs("\"decimals\": null, ", file);
    else if (form->decimals != CLRS_DECIMALS_DEFAULT)
        fprintf(file, "\"decimals\": %" PRId64 ", ", form->decimals);
    if (form->ties == CLRS_TIES_SIMD)
        fputs("\"ties\": \"simd\", ", file);
}

void clrs_print_record(FILE *file, const clrs_sample *sample, const clrs_record_form *form) {
    if (form->as_text) {
        fwrite(sample->question, 1, sample->question_length, file);
        fwrite(sample->answer, 1, sample->answer_length, file);
        return;
    }
    fputc('{', file);
    if (form->position)
        fprintf(file, "\"n\": %" PRIu64 ", ", *form->position);
    fprintf(file,
            "\"algo\": \"%s\", \"length\": %d, \"seed\": %" PRIu32 ", \"index\": %" PRIu64 ", ",
            sample->algorithm->name, sample->length, sample->seed, sample->index);
    print_settings(file, form);
    fprintf(file, "\"use_hints\": %s, \"question\": ", sample->hints ? "true" : "false");
    clrs_write_json_text(file, sample->question, sample->question_length);
    fputs(", \"answer\": ", file);
    clrs_write_json_text(file, sample->answer, sample->answer_length);
    fputs("}\n", file);
}
