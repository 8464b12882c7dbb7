/* Numbers as tables and as JSON; see number_table.h. */
#include "number_table.h"

#include "commands.h"
#include "messages.h"
#include "text.h"

#include "base/json.h"
#include "base/table.h"

#include <math.h>

const char *number_text(double value, number_look look, int digits, char text[NUMBER_TEXT_SIZE]) {
    if (look == LOOK_SIZE && value < 1e15)
        grouped((uint64_t)value, text);
    else if (!isfinite(value))
        snprintf(text, NUMBER_TEXT_SIZE, isnan(value) ? "-" : "beyond 1e308");
    else if (look == LOOK_SIZE)
        snprintf(text, NUMBER_TEXT_SIZE, "%.2e", value);
    else if (look == LOOK_FIXED)
        snprintf(text, NUMBER_TEXT_SIZE, "%.*f", digits, value);
    else
        snprintf(text, NUMBER_TEXT_SIZE, "%.*g", digits, value);
    return text;
}

int print_number_table(const number_table *of) {
    char text[NUMBER_TEXT_SIZE];
    lab_table table = lab_table_start(of->column_count);
    for (size_t c = 0; c < of->column_count; c++)
        lab_table_add(&table, "%s", of->columns[c].title);
    for (size_t r = 0; r < of->rows; r++)
        for (size_t c = 0; c < of->column_count; c++)
            lab_table_add(&table, "%s",
                          number_text(of->values[r * of->column_count + c], of->columns[c].look,
                                      of->columns[c].digits, text));
    return lab_table_finish(&table, stdout) ? STATUS_OK : complain_of_memory();
}

json_t *number_table_json(const number_table *of) {
    json_t *rows = json_array();
    for (size_t r = 0; r < of->rows; r++) {
        json_t *row = json_object();
        for (size_t c = 0; c < of->column_count; c++)
            json_object_set_new(row, of->columns[c].key,
                                lab_json_number(of->values[r * of->column_count + c]));
        json_array_append_new(rows, row);
    }
    return rows;
}
