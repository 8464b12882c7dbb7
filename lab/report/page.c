/*
 * Writes the page. Pictures are put into it as data, so that the file can be
 * sent to somebody by itself; they follow the window into the dark. A script
 * (page.js) shows their numbers and switches curves off; without it they are
 * as they are. Text that stays the same is here, that of a figure in parts.c.
 */
#include "report/page.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/files.h"
#include "report/html.h"
#include "report/parts.h"
#include "report/table1.h"
#include "report/verdict.h"
#include "whet.h"

#include "report_page_script.h"
#include "report_page_style.h"

#include <stdlib.h>
#include <string.h>

typedef struct page {
    experiment *experiment;
    double seconds;
    bool failed; /* memory ran out */
} page;

/* ---- parts ---- */

static bool is_drawn(page *p, const report_part *part) {
    char *path = lab_path(p->experiment->options.folder, "figures/%s.svg", part->name);
    bool is_there = path && lab_file_exists(path);
    p->failed = p->failed || !path;
    free(path);
    return is_there;
}

static bool is_shown(page *p, const report_part *part) {
    return part->draw ? is_drawn(p, part) : part->table->kept(p->experiment) != NULL;
}

/* The numbers, the pictures and the command that makes them again. */
static void write_links(FILE *file, const page *p, const report_part *part) {
    fprintf(file, "<p class=\"links\"><a href=\"data/%s.csv\">data (CSV)</a>", part->name);
    if (part->draw)
        fprintf(file,
                " &middot; <a href=\"figures/%s.png\">PNG</a>"
                " &middot; <a href=\"figures/%s.svg\">SVG</a>"
                " &middot; <code>whet figure %s --from ",
                part->name, part->name,
                strncmp(part->name, "figure", 6) == 0 ? part->name + 6 : part->name);
    else
        fprintf(file, " &middot; <code>whet reproduce --only %s --out-dir ", part->name);
    html_text(file, p->experiment->options.folder);
    fputs("</code></p>\n", file);
}

static void write_picture(FILE *file, page *p, const report_part *part) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    size_t size;
    char *path = lab_path(p->experiment->options.folder, "figures/%s.svg", part->name);
    char *data = path ? lab_read_file(path, (size_t)64 << 20, &size, &unimportant) : NULL;
    p->failed = p->failed || !path;
    if (data) {
        fputs("<figure tabindex=\"0\"><img alt=\"", file);
        html_text(file, part->title);
        fputs("\" src=\"data:image/svg+xml;base64,", file);
        html_base64(file, data, size);
        fputs("\"></figure>\n", file);
    }
    free(data);
    free(path);
}

static void write_part(FILE *file, page *p, const report_part *part) {
    fprintf(file, "<section id=\"%s\">\n<h2>%s</h2>\n<p>%s</p>\n", part->name, part->title,
            part->text);
    if (part->draw)
        write_picture(file, p, part);
    else
        part->table->html(file, part->table->kept(p->experiment));
    write_links(file, p, part);
    fputs("</section>\n", file);
}

/* ---- the top ---- */

static void write_verdict(FILE *file, const page *p) {
    verdict list[VERDICTS];
    verdicts_of(p->experiment, list);
    fputs("<section id=\"verdict\">\n<h2>Verdict</h2>\n<p class=\"lead\">", file);
    verdict_summary(file, list);
    fputs("</p>\n", file);
    verdict_html(file, list);
    fputs("</section>\n", file);
}

/* A page of its own, made by `whet league` in a folder of the report. */
static bool has_league(page *p) {
    char *path = lab_path(p->experiment->options.folder, "league/index.html");
    bool is_there = path && lab_file_exists(path);
    p->failed = p->failed || !path;
    free(path);
    return is_there;
}

static void write_contents(FILE *file, page *p) {
    const report_part *part;
    fputs("<nav id=\"contents\">\n<h2>Contents</h2>\n<ul>\n"
          "<li><a href=\"#run\">What was run</a></li>\n",
          file);
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        if (is_shown(p, part))
            fprintf(file, "<li><a href=\"#%s\">%s</a></li>\n", part->name, part->title);
    if (has_league(p))
        fputs("<li><a href=\"league/index.html\">The league: every policy trained on every "
              "task</a></li>\n",
              file);
    if (p->experiment->table)
        fputs("<li><a href=\"#differs\">Differences from the paper</a></li>\n", file);
    fputs("</ul>\n</nav>\n", file);
}

static void write_heads_run(FILE *file, const experiment *e) {
    char text[256];
    const experiment_options *o = &e->options;
    if (o->trains_heads)
        snprintf(text, sizeof text, "%llu seed%s, %llu steps each, trained here",
                 (unsigned long long)o->seeds, o->seeds == 1 ? "" : "s",
                 (unsigned long long)o->steps);
    else
        snprintf(text, sizeof text,
                 "ten seeds of 100,000 steps that are part of whet (f32: one), as in the paper");
    html_fact(file, "heads", text);
    if (e->fresh) {
        snprintf(text, sizeof text, "seed %lld, %lld steps, trained here",
                 (long long)json_integer_value(json_object_get(e->fresh, "seed")),
                 (long long)json_integer_value(json_object_get(e->fresh, "steps")));
        html_fact(file, "fresh head", text);
    }
    snprintf(text, sizeof text,
             "%llu sets of each size (512 for the figures of all policies), up to %llu items, the "
             "same sets for all heads and policies",
             (unsigned long long)o->sets, (unsigned long long)o->largest);
    if (o->sets != 4096 || o->trains_heads)
        snprintf(text, sizeof text, "%llu sets of each size, up to %llu items",
                 (unsigned long long)o->sets, (unsigned long long)o->largest);
    html_fact(file, "evaluation", text);
}

static void write_models_run(FILE *file, const json_t *clrs) {
    char text[256];
    const json_t *training = json_object_get(clrs, "training");
    snprintf(text, sizeof text, "%lld steps each, %lld questions of each algorithm and length",
             (long long)json_integer_value(json_object_get(training, "steps")),
             (long long)json_integer_value(json_object_get(clrs, "samples")));
    html_fact(file, "language models", text);
}

static void write_what_was_run(FILE *file, const page *p) {
    char text[256], time[LAB_TIME_SIZE];
    const experiment *e = p->experiment;
    fputs("<section id=\"run\">\n<h2>What was run</h2>\n<dl>\n", file);
    snprintf(text, sizeof text, "%s, not counting results that the folder already had",
             lab_duration(p->seconds, time));
    html_fact(file, "run time", text);
    html_machine(file);
    html_fact(file, "matrix products", e->options.engine->blas.description);
    html_fact(file, "written", lab_time_of_day(time));
    if (e->table || e->evaluation[RETRIEVAL_F32] || e->evaluation[experiment_paper])
        write_heads_run(file, e);
    if (e->clrs)
        write_models_run(file, e->clrs);
    fputs("</dl>\n<p class=\"note\">Beside this file: the numbers of every part in "
          "<code>data/</code>, all results in <code>results/</code>, what was trained in "
          "<code>runs/</code>.</p>\n</section>\n",
          file);
}

/* ---- the end ---- */

/* Heads that were trained for less are worse, and that is no finding. */
static void write_scale(FILE *file, const experiment_options *o) {
    if (o->trains_heads && (o->steps < 100000 || o->seeds < 10))
        fprintf(file,
                "<p>This is not the paper's scale: %llu seed%s of %llu steps, where the paper has "
                "ten of 100,000. Heads trained for less are worse among many items. Without "
                "<code>--seeds</code> and <code>--steps</code> the heads are those of whet, at the "
                "paper's scale; <code>--full</code> trains them again.</p>\n",
                (unsigned long long)o->seeds, o->seeds == 1 ? "" : "s",
                (unsigned long long)o->steps);
}

static void write_what_differs(FILE *file, const page *p) {
    if (!p->experiment->table)
        return;
    fputs("<section id=\"differs\">\n<h2>Differences from the paper</h2>\n<pre class=\"note\">",
          file);
    table1_check(file, p->experiment->table);
    fputs("</pre>\n", file);
    write_scale(file, &p->experiment->options);
    fputs("<p>The paper leaves choices open: how the L2 penalty enters, how deep the small "
          "networks are, and what is rounded. The reading used here (decoupled decay, one hidden "
          "layer, the operands of matrix products rounded to bfloat16 as TPUs do by default, "
          "labels from unrounded priorities) is inferred from the published numbers; the paper "
          "does not say. No reading with exact inputs fits: heads trained on those are far better "
          "than the published ones.</p>\n</section>\n",
          file);
}

/* False when memory ran out: a page that lacks something does not replace one that is whole. */
static bool write_page(FILE *file, void *context) {
    page *p = context;
    html_page_begin(file, "whet: softmax is not enough, reproduced", report_page_style);
    fputs("<h1>Softmax is not enough: what whet reproduced</h1>\n"
          "<p>Attention normalised by softmax loses its sharpness as its input grows: every "
          "coefficient falls to zero like 1/n, whatever the head has learned. Adaptive temperature "
          "measures "
          "each row's entropy and sharpens it at inference time. This page repeats the experiments "
          "of Veličković, Perivolaropoulos, Barbero and Pascanu (ICML 2025) on max retrieval and "
          "compares their rule with others.</p>\n",
          file);
    write_verdict(file, p);
    write_contents(file, p);
    write_what_was_run(file, p);
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        if (is_shown(p, part))
            write_part(file, p, part);
    write_what_differs(file, p);
    fprintf(file, "<script>\n%s</script>\n", report_page_script);
    html_page_end(file);
    return !p->failed;
}

bool page_write(experiment *e, double seconds, lab_error *error) {
    page p = {.experiment = e, .seconds = seconds};
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
