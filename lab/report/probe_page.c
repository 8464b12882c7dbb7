/*
 * Measurements as compact JSON, four digits each, so that a model of 1,024 heads stays below 5 MB,
 * and the script that draws them; see probe_page.h.
 */
#include "report/probe_page.h"

#include "base/atomic_file.h"
#include "report/html.h"

#include "probe_page_script.h"
#include "probe_page_style.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the page shows; means over sequences. */
static const probe_measure shown[] = {PROBE_ENTROPY, PROBE_ENTROPY_AFTER, PROBE_BETA,
                                      PROBE_LARGEST_WEIGHT, PROBE_SINK_SHARE};
enum { SHOWN = sizeof shown / sizeof shown[0] };

typedef struct page {
    const probe_request *request;
    const probe_result *result;
    const head_trend *trends;
    size_t trend_count;
} page;

static void write_number(FILE *file, double value) {
    if (isfinite(value))
        fprintf(file, "%.4g", value);
    else
        fputs("null", file);
}

/* Text within JSON within a script: nothing of it may end the script. */
static void write_string(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || strchr("\"\\<>&", c))
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

/* [layer][head][size], flat. */
static void write_measure(FILE *file, const probe_result *r, size_t policy, probe_measure measure) {
    const char *comma = "";
    fputc('[', file);
    for (size_t layer = 0; layer < r->layers; layer++)
        for (size_t head = 0; head < r->heads; head++)
            for (size_t size = 0; size < r->sizes; size++, comma = ",") {
                fputs(comma, file);
                write_number(file, probe_mean(r, policy, size, layer, head, measure));
            }
    fputc(']', file);
}

/* [layer][head][stretch], flat. */
static void write_along(FILE *file, const probe_result *r, size_t policy, probe_along what) {
    for (size_t i = 0; i < r->layers * r->heads * PROBE_STRETCHES; i++) {
        size_t head = i / PROBE_STRETCHES;
        double mean = probe_along_mean(r, policy, head / r->heads, head % r->heads,
                                       i % PROBE_STRETCHES, what);
        fputs(i ? "," : "[", file);
        if (isfinite(mean))
            fprintf(file, "%.3g", mean);
        else
            fputs("null", file);
    }
    fputc(']', file);
}

/* [layer][head][size] of [[position, weight], ...]; null where nothing was recorded. */
static void write_keys(FILE *file, const probe_result *r, size_t policy) {
    fputs(",\"keys\":[", file);
    for (size_t i = 0; i < r->layers * r->heads * r->sizes; i++) {
        size_t head = i / r->sizes;
        const probe_key *keys =
            probe_keys(r, policy, i % r->sizes, head / r->heads, head % r->heads);
        fputs(i ? "," : "", file);
        if (!keys) {
            fputs("null", file);
            continue;
        }
        for (size_t k = 0; k < r->key_count && keys[k].weight > 0; k++)
            fprintf(file, "%s[%u,%.3g]", k ? "," : "[", keys[k].position, (double)keys[k].weight);
        fputc(']', file);
    }
    fputc(']', file);
}

/* The texts of the tokens, [size][token]. */
static void write_pieces(FILE *file, const probe_result *r) {
    fputs(",\"pieces\":[", file);
    for (size_t s = 0; s < r->sizes; s++) {
        fputs(s ? ",[" : "[", file);
        for (size_t i = 0; i < json_array_size(json_array_get(r->pieces, s)); i++) {
            fputs(i ? "," : "", file);
            write_string(file, probe_piece(r, s, i));
        }
        fputc(']', file);
    }
    fputc(']', file);
}

/* Logits near the largest, of the plainest policy: [layer][head][size], and for counts [delta]. */
static void write_gaps(FILE *file, const probe_result *r) {
    size_t count = r->layers * r->heads * r->sizes;
    fputs(",\"deltas\":[", file);
    for (size_t d = 0; d < PROBE_DELTAS; d++)
        fprintf(file, "%s%g", d ? "," : "", probe_deltas[d]);
    fputs("],\"within\":[", file);
    for (size_t i = 0; i < count * PROBE_DELTAS; i++) {
        size_t head = i / PROBE_DELTAS / r->sizes, size = i / PROBE_DELTAS % r->sizes;
        fputs(i ? "," : "", file);
        write_number(file,
                     probe_within(r, size, head / r->heads, head % r->heads, i % PROBE_DELTAS));
    }
    fputs("],\"called\":[", file);
    for (size_t i = 0; i < count; i++) {
        size_t head = i / r->sizes;
        fputs(i ? "," : "", file);
        write_number(file,
                     probe_beta_called_for(r, i % r->sizes, head / r->heads, head % r->heads));
    }
    fputs("],\"exponents\":[", file);
    for (size_t i = 0; i < r->layers * r->heads; i++) {
        fputs(i ? "," : "", file);
        write_number(file, probe_exponent(r, i / r->heads, i % r->heads));
    }
    fputc(']', file);
}

static void write_policy(FILE *file, const page *p, size_t policy) {
    const probe_result *r = p->result;
    fputs("{\"name\":", file);
    write_string(file, p->request->policies[policy]);
    fputs(",\"perplexity\":", file);
    write_number(file, r->perplexity[policy]);
    fputs(",\"right\":[", file);
    for (size_t s = 0; s < r->sizes; s++) {
        const probe_score *score = &r->score[policy][s];
        fputs(s ? "," : "", file);
        write_number(file, score->asked ? (double)score->right / (double)score->asked : NAN);
    }
    fputs("],\"measures\":{", file);
    for (size_t m = 0; m < SHOWN; m++) {
        fprintf(file, "%s\"%s\":", m ? "," : "", probe_measure_names[shown[m]]);
        write_measure(file, r, policy, shown[m]);
    }
    fprintf(file, "},\"along\":{\"entropy\":");
    write_along(file, r, policy, PROBE_ALONG_ENTROPY);
    fputs(",\"entropy_after\":", file);
    write_along(file, r, policy, PROBE_ALONG_ENTROPY_AFTER);
    fputs(",\"largest_weight\":", file);
    write_along(file, r, policy, PROBE_ALONG_LARGEST_WEIGHT);
    fputc('}', file);
    if (r->keys)
        write_keys(file, r, policy);
    fputc('}', file);
}

static void write_trends(FILE *file, const page *p) {
    for (size_t i = 0; i < p->trend_count; i++) {
        const head_trend *t = &p->trends[i];
        fprintf(file, "%s[%zu,%zu,\"%s\",", i ? "," : "", t->layer, t->head,
                head_kind_name(t->kind));
        write_number(file, t->slope);
        fputc(']', file);
    }
}

static void write_retrieval(FILE *file, const page *p) {
    const probe_result *r = p->result;
    size_t plainest = probe_plainest(p->request);
    fputs(",\"retrieval\":[", file);
    for (size_t i = 0; i < r->layers * r->heads; i++) {
        fputs(i ? "," : "", file);
        write_number(file, probe_retrieval(r, plainest, i / r->heads, i % r->heads));
    }
    fputc(']', file);
}

static void write_data(FILE *file, const page *p) {
    const probe_result *r = p->result;
    fprintf(file, "{\"layers\":%zu,\"heads\":%zu,\"of\":\"%s\",\"model\":", r->layers, r->heads,
            p->request->text ? "tokens" : "numbers");
    write_string(file, p->request->model.path);
    fputs(",\"sizes\":[", file);
    for (size_t s = 0; s < r->sizes; s++)
        fprintf(file, "%s%llu", s ? "," : "", (unsigned long long)r->size[s]);
    fputs("],\"tokens\":[", file);
    for (size_t s = 0; s < r->sizes; s++)
        fprintf(file, "%s%.6g", s ? "," : "", r->tokens[s]);
    fputs("],\"trends\":[", file);
    write_trends(file, p);
    fputc(']', file);
    if (r->retrieval)
        write_retrieval(file, p);
    fputs(",\"stretches\":[", file);
    for (size_t i = 0; i <= PROBE_STRETCHES; i++)
        fprintf(file, "%s%.6g", i ? "," : "", probe_stretch(r, i));
    fputc(']', file);
    if (r->gaps)
        write_gaps(file, r);
    if (r->keys)
        write_pieces(file, r);
    fputs(",\"policies\":[", file);
    for (size_t i = 0; i < r->policies; i++) {
        fputs(i ? "," : "", file);
        write_policy(file, p, i);
    }
    fputs("]}", file);
}

/* For readers without scripts: heads that disperse. */
static void write_table(FILE *file, const page *p) {
    fputs("<noscript>\n<h2>Heads that disperse</h2>\n", file);
    html_table_begin(file);
    fputs("<tr><th>layer</th><th>head</th><th>entropy, shortest</th><th>longest</th>"
          "<th>slope</th></tr>\n",
          file);
    for (size_t i = 0; i < p->trend_count; i++) {
        const head_trend *t = &p->trends[i];
        if (t->kind == HEAD_DISPERSES)
            fprintf(file,
                    "<tr><td>%zu</td><td>%zu</td><td>%.3f</td><td>%.3f</td><td>%.2f</td></tr>\n",
                    t->layer, t->head, t->short_entropy, t->long_entropy, t->slope);
    }
    html_table_end(file);
    fputs("</noscript>\n", file);
}

static void write_page(FILE *file, const void *context) {
    const page *p = context;
    html_page_begin(file, "Heads of a language model", probe_page_style);
    fputs("<h1>Heads of ", file);
    const char *slash = strrchr(p->request->model.path, '/');
    html_text(file, slash ? slash + 1 : p->request->model.path);
    fputs("</h1>\n<p class=\"lead\">Every square is a head: layers from top to bottom, heads from "
          "left to right. Click one for its curves; mark heads to sharpen them in llama.cpp.</p>\n"
          "<div id=\"app\"></div>\n",
          file);
    write_table(file, p);
    fputs("<h2>How it was measured</h2>\n<dl>\n", file);
    html_fact(file, "model", p->request->model.path);
    html_fact(file, "llama.cpp", p->result->version);
    html_machine(file);
    fputs("</dl>\n<script type=\"application/json\" id=\"data\">", file);
    write_data(file, p);
    fprintf(file, "</script>\n<script>\n%s</script>\n", probe_page_script);
    html_page_end(file);
}

bool probe_page(const char *path, const probe_request *request, const probe_result *result,
                lab_error *error) {
    page p = {.request = request, .result = result};
    head_trend *trends = probe_trends(result, probe_plainest(request), &p.trend_count);
    p.trends = trends;
    if (!trends)
        return lab_fail_memory(error);
    bool is_written = replace_file(path, write_page, &p);
    free(trends);
    return is_written || lab_fail_file(error, "write", path);
}
