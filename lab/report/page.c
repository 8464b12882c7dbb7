/*
 * Writes the page. Pictures are put into it as data, so that the file can be
 * sent to somebody by itself; they have white backgrounds and keep them in the
 * dark. Words that stay the same are here; those beside a figure are in parts.c.
 */
#include "report/page.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/machine.h"
#include "report/html.h"
#include "report/parts.h"
#include "report/results.h"
#include "report/table1.h"
#include "whet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1c2430;--soft:#5a6675;--line:#d5dbe3;--paper:#fbfcfd;"
    "--card:#fff;--mark:#0b6bcb}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e5e9ef;--soft:#9aa6b4;--line:#36404d;"
    "--paper:#12161c;--card:#1a2029;--mark:#6db3ff}}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);font:17px/1.6 system-ui,sans-serif}\n"
    "main{max-width:60rem;margin:0 auto;padding:2rem 1.2rem 4rem}\n"
    "h1{font-size:2rem;line-height:1.2;margin:1rem 0}h2{margin:3rem 0 .5rem;font-size:1.35rem}\n"
    "p{max-width:46rem}.lead{font-size:1.15rem}.note,small{color:var(--soft);font-size:.85rem}\n"
    "small{display:block;font-size:.72rem}\n"
    "figure{margin:1rem 0}figure img{width:100%;height:auto;background:#fff;border:1px solid "
    "var(--line);border-radius:6px}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;"
    "background:var(--card)}\n"
    "th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right;"
    "vertical-align:top;white-space:nowrap}th[scope=row]{text-align:left;font-weight:600}\n"
    ".published{color:var(--soft)}.published .certain{color:var(--ink);font-weight:600}\n"
    "dl{display:grid;grid-template-columns:max-content auto;gap:.2rem 1rem;font-size:.92rem}"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    "a{color:var(--mark)}code{font-size:.92em}pre{white-space:pre-wrap}\n";

typedef struct page {
    experiment *experiment;
    bool failed; /* memory ran out */
} page;

static void write_picture(FILE *file, page *p, const report_part *part) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    size_t size;
    char *path = lab_path(p->experiment->options.folder, "figures/%s.svg", part->name);
    char *data = path && lab_file_exists(path)
                     ? lab_read_file(path, (size_t)64 << 20, &size, &unimportant)
                     : NULL;
    p->failed = p->failed || !path;
    if (data) {
        fprintf(file, "<section id=\"%s\">\n<h2>%s</h2>\n<p>%s</p>\n", part->name, part->title,
                part->text);
        fputs("<figure><img alt=\"", file);
        html_text(file, part->title);
        fputs("\" src=\"data:image/svg+xml;base64,", file);
        html_base64(file, data, size);
        fputs("\"></figure>\n</section>\n", file);
    }
    free(data);
    free(path);
}

static void write_table(FILE *file, const page *p, const report_part *part) {
    const json_t *result = part->table->kept(p->experiment);
    if (!result)
        return;
    fprintf(file, "<section id=\"%s\">\n<h2>%s</h2>\n<p>%s</p>\n", part->name, part->title,
            part->text);
    part->table->html(file, result);
    fputs("</section>\n", file);
}

static void write_row(FILE *file, const char *name, const char *text) {
    fprintf(file, "<dt>%s</dt><dd>", name);
    html_text(file, text);
    fputs("</dd>\n", file);
}

static void write_heads_run(FILE *file, const experiment_options *o) {
    char text[256];
    snprintf(text, sizeof text, "%llu seed%s, %llu steps each", (unsigned long long)o->seeds,
             o->seeds == 1 ? "" : "s", (unsigned long long)o->steps);
    write_row(file, "training", text);
    snprintf(text, sizeof text, "%llu sets a size, up to %llu items, all policies on the same sets",
             (unsigned long long)o->sets, (unsigned long long)o->largest);
    write_row(file, "evaluation", text);
}

static void write_models_run(FILE *file, const json_t *clrs) {
    char text[256];
    const json_t *training = json_object_get(clrs, "training");
    snprintf(text, sizeof text, "%lld steps each, %lld questions of each algorithm and length",
             (long long)json_integer_value(json_object_get(training, "steps")),
             (long long)json_integer_value(json_object_get(clrs, "samples")));
    write_row(file, "language models", text);
}

static void write_what_was_run(FILE *file, const page *p) {
    char text[256], time[LAB_TIME_SIZE];
    const experiment *e = p->experiment;
    const experiment_options *o = &e->options;
    fputs("<section id=\"run\">\n<h2>What was run</h2>\n<dl>\n", file);
    if (e->evaluation[RETRIEVAL_F32] || e->evaluation[experiment_paper] || !e->clrs)
        write_heads_run(file, o);
    if (e->clrs)
        write_models_run(file, e->clrs);
    snprintf(text, sizeof text, "whet %s, %s", whet_version(), whet_isa());
    write_row(file, "library", text);
    write_row(file, "matrix products", o->engine->blas.description);
    lab_cpu_name(text, sizeof text);
    write_row(file, "machine", text);
    write_row(file, "written", lab_time_of_day(time));
    fputs("</dl>\n<p class=\"note\">The numbers behind every picture are in <code>results/</code> "
          "beside this file, the trained heads in <code>runs/</code>.</p>\n</section>\n",
          file);
}

/* Heads that were trained for less are worse, and that is no finding. */
static void write_scale(FILE *file, const experiment_options *o) {
    if (o->steps < 100000 || o->seeds < 10)
        fprintf(
            file,
            "<p>This is not the paper's scale: %llu seed%s of %llu steps, where the paper has ten "
            "of 100,000. Heads trained for less are worse among many items. <code>whet reproduce "
            "--full</code> has the paper's.</p>\n",
            (unsigned long long)o->seeds, o->seeds == 1 ? "" : "s", (unsigned long long)o->steps);
}

static void write_what_differs(FILE *file, const page *p) {
    const json_t *evaluation = p->experiment->evaluation[experiment_paper];
    if (!evaluation)
        return;
    fputs("<section id=\"differs\">\n<h2>What differs from the paper, and why</h2>\n"
          "<pre class=\"note\">",
          file);
    table1_check(file, evaluation);
    fputs("</pre>\n", file);
    write_scale(file, &p->experiment->options);
    fputs("<p>The paper leaves choices open: how the L2 penalty enters, how deep the small "
          "networks are, and what is rounded. The reading used here (decoupled decay, one hidden "
          "layer, the operands of matrix products rounded to bfloat16, as TPUs do unless told "
          "otherwise, labels from unrounded priorities) is inferred from the numbers, which it "
          "fits within their errors; the paper does not say. No reading "
          "with exact inputs fits, since heads trained on those are far better than the published "
          "ones.</p>\n</section>\n",
          file);
}

/* False when memory ran out: a page that lacks something does not replace one that is whole. */
static bool write_page(FILE *file, void *context) {
    page *p = context;
    fputs("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n"
          "<title>whet: softmax is not enough, reproduced</title>\n<style>\n",
          file);
    fputs(style, file);
    fputs("</style>\n<main>\n<h1>Softmax is not enough, reproduced</h1>\n"
          "<p class=\"lead\">Attention normalised by softmax loses its sharpness as its input "
          "grows: every coefficient goes to 1/n, whatever was learnt. Adaptive temperature "
          "measures each row's entropy and sharpens it at inference time. This page repeats the "
          "experiments of Veličković, Perivolaropoulos, Barbero and Pascanu (ICML 2025) on max "
          "retrieval, and compares their rule with policies they did not have.</p>\n",
          file);
    write_what_was_run(file, p);
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        if (part->draw)
            write_picture(file, p, part);
        else
            write_table(file, p, part);
    }
    write_what_differs(file, p);
    fputs("</main>\n</html>\n", file);
    return !p->failed;
}

bool page_write(experiment *e, lab_error *error) {
    page p = {.experiment = e};
    experiment_recall(e);
    char *path = lab_path(e->options.folder, "index.html");
    if (!path)
        return lab_fail_memory(error);
    bool good = replace_file_unless(path, write_page, &p);
    if (!good)
        (void)(p.failed ? lab_fail_memory(error) : lab_fail_file(error, "write", path));
    free(path);
    return good;
}
