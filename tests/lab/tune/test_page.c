/* The page of `whet tune` from results that are made up: it is well-formed whatever names and
 * numbers it gets, has every arm, and says what was found. */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "base/files.h"
#include "tune/arms.h"
#include "tune/page.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LAYERS = 3, HEADS = 4, SEQUENCES = 5, EXAMPLES = 6, CONTEXT = 64 };

static const char hostile[] = "<b>\"it's\" & </svg>";

/* ---- results ---- */

static double *numbers(size_t count, double first, double step) {
    double *list = malloc(count * sizeof *list);
    REQUIRE(list != NULL);
    for (size_t i = 0; i < count; i++)
        list[i] = first + step * (double)(i * i % 7);
    return list;
}

static tune_measure measure_of(size_t count, double loss) {
    tune_measure m = {.count = count};
    for (size_t part = 0; part < TUNE_PARTS; part++)
        m.loss[part] = numbers(count, loss + 0.1 * (double)part, 0.01 * loss);
    m.right = numbers(count, 0.9 - 0.1 * loss, 0.01);
    m.exact = numbers(count, 0, 0.1);
    for (size_t i = 0; i < TUNE_BINS; i++)
        m.bins[i] = loss + 0.01 * (double)i;
    return m;
}

static void add_row(tune_result *r, const char *name, size_t seed, double loss) {
    tune_row *rows = realloc(r->rows, (r->row_count + 1) * sizeof *rows);
    REQUIRE(rows != NULL);
    r->rows = rows;
    tune_row *row = &rows[r->row_count++];
    *row = (tune_row){.seed = seed, .check = calloc(r->check.count, sizeof *row->check)};
    REQUIRE(row->check != NULL);
    snprintf(row->name, sizeof row->name, "%s", name);
    for (size_t i = 0; i < r->check.count; i++)
        row->check[i] = measure_of(SEQUENCES, loss + (double)i);
    if (r->task_count)
        row->task = measure_of(EXAMPLES, loss);
}

static tune_texts texts_of(const char *name, size_t count) {
    tune_texts texts = {.domains = calloc(count, sizeof *texts.domains), .count = count};
    REQUIRE(texts.domains != NULL);
    for (size_t i = 0; i < count; i++) {
        tune_domain *domain = &texts.domains[i];
        domain->name = strdup(name);
        domain->files = calloc(1, sizeof *domain->files);
        domain->file_count = 1;
        REQUIRE(domain->name && domain->files);
        domain->files[0] = (tune_file){.path = name, .hash = "abc", .bytes = 9, .tokens = 3};
    }
    return texts;
}

static size_t *counts_of(size_t count, size_t value) {
    size_t *list = malloc(count * sizeof *list);
    REQUIRE(list != NULL);
    for (size_t i = 0; i < count; i++)
        list[i] = value;
    return list;
}

static void fill_setting(tune_setting *s, double n0) {
    REQUIRE(tune_setting_create(LAYERS, HEADS, n0, s));
    for (size_t i = 0; i < LAYERS * HEADS; i++) {
        s->a[i] = 0.05 * ((double)i - 5);
        s->h[i] = i % 2 ? 0.2 : 0;
    }
}

static void add_candidates(tune_result *r) {
    enum { COUNT = 3 };
    r->candidates = calloc(COUNT, sizeof *r->candidates);
    REQUIRE(r->candidates != NULL);
    r->candidate_count = COUNT;
    for (size_t i = 0; i < COUNT; i++) {
        tune_candidate *c = &r->candidates[i];
        *c = (tune_candidate){.by = i == 0 ? TUNE_BY_ALL : TUNE_BY_HEAD,
                              .seed = 1,
                              .step = 10 * i,
                              .share = i == 2 ? 0.5 : 1,
                              .gain = {-0.01 * (double)i, -0.1, i == 2 ? INFINITY : 0, 0.1},
                              .worst = i == 0 ? (double)-INFINITY : 0.004 * (double)i,
                              .cost = (double)NAN};
        fill_setting(&c->setting, r->n0);
    }
}

static tune_result made_up(size_t domains, bool has_task, bool is_found) {
    tune_result r = {.layers = LAYERS, .heads = HEADS, .context = CONTEXT, .n0 = 16};
    r.part = TUNE_BEYOND;
    r.text = texts_of(hostile, 1);
    r.validate = texts_of("novels", 2);
    r.check = texts_of(hostile, domains);
    r.check_counts = counts_of(domains, SEQUENCES);
    r.validation_counts = counts_of(2, SEQUENCES);
    r.task_count = has_task ? EXAMPLES : 0;
    r.is_chosen = r.is_confirmed = is_found;
    r.by = TUNE_BY_HEAD;
    r.seed = 1;
    r.share = 1;
    r.step = 10;
    snprintf(r.hash, sizeof r.hash, "0123");
    fill_setting(&r.setting, r.n0);
    add_row(&r, "softmax", 0, 3);
    add_row(&r, "one number", 1, 2.9);
    add_row(&r, "one number", 2, 2.8);
    add_row(&r, "per head", 1, 2.7);
    if (is_found)
        add_row(&r, "chosen", 0, 2.7);
    for (size_t i = 1; i <= TUNE_PERMUTATIONS; i++)
        add_row(&r, "permuted", i, 3.1);
    add_row(&r, "linear:4", 0, 9);
    add_row(&r, "window", 0, 3.2);
    add_candidates(&r);
    return r;
}

/* ---- the page ---- */

static tune_request request_of(bool has_task) {
    return (tune_request){.model = hostile,
                          .task = has_task ? hostile : NULL,
                          .rope = "yarn:4",
                          .by = TUNE_BY_HEAD,
                          .limit = 0.005,
                          .seeds = 2};
}

static char *page_of(const tune_request *request, const tune_result *result) {
    static const char *const command[] = {"tune", hostile, "--html", "page.html"};
    const tune_page page = {.request = request,
                            .result = result,
                            .out = "it's & more.json",
                            .seconds = 61,
                            .arguments = command,
                            .argument_count = 4};
    lab_error error = {0};
    char path[64];
    size_t size;
    snprintf(path, sizeof path, "/tmp/whet-tune-page-%ld.html", (long)getpid());
    REQUIRE(tune_page_write(path, &page, &error));
    char *text = lab_read_text(path, 1 << 24, &size, &error);
    unlink(path);
    REQUIRE(text != NULL);
    return text;
}

/* The end of the tag that begins at `at`, past quotes. */
static const char *tag_end(const char *at) {
    for (bool is_quoted = false; *at && (is_quoted || *at != '>'); at++)
        is_quoted = is_quoted != (*at == '"');
    return at;
}

/* Every tag is closed by its like, in order, and every & begins an entity. */
static void check_form(const char *page) {
    enum { DEPTH = 64, NAME = 16 };
    char open[DEPTH][NAME];
    size_t depth = 0;
    for (const char *at = strchr(page, '<'); at; at = strchr(at, '<')) {
        const char *end = tag_end(at);
        char name[NAME] = "";
        bool closes = at[1] == '/';
        size_t length = strspn(at + 1 + closes,
                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
        snprintf(name, sizeof name, "%.*s", (int)length, at + 1 + closes);
        if (closes && !(depth > 0 && CHECK_STR(open[--depth], name)))
            return;
        if (!CHECK(*end == '>' && depth < DEPTH))
            return;
        if (!closes && at[1] != '!' && end[-1] != '/')
            memcpy(open[depth++], name, NAME);
        at = end;
    }
    CHECK_INT(depth, 0);
    for (const char *at = strchr(page, '&'); at; at = strchr(at + 1, '&'))
        CHECK_MSG(strncmp(at, "&lt;", 4) == 0 || strncmp(at, "&amp;", 5) == 0 ||
                      strncmp(at, "&quot;", 6) == 0,
                  "%.20s", at);
}

/* Numbers that are none would stand as words of their own. */
static void check_numbers(const char *page) {
    static const char *const words[] = {"nan", "inf", "NaN", "Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *at = strstr(page, words[i]); at; at = strstr(at + 1, words[i]))
            CHECK_MSG(isalpha((unsigned char)at[-1]) ||
                          isalpha((unsigned char)at[strlen(words[i])]),
                      "%.40s", at - 10);
}

static bool has(const char *page, const char *text) { return strstr(page, text) != NULL; }

static void check_page(const char *page, const tune_result *r) {
    char cell[TUNE_NAME_SIZE + 32];
    check_form(page);
    check_numbers(page);
    CHECK(!has(page, hostile) && !has(page, "<b>\"") && has(page, "&lt;b>&quot;it's&quot; &amp;"));
    CHECK(!has(page, "src=") && !has(page, "href=\"http") && !has(page, "<script"));
    for (size_t i = 0; i < r->row_count; i++) {
        snprintf(cell, sizeof cell, "<th scope=\"row\">%s<", r->rows[i].name);
        CHECK_MSG(has(page, cell), "%s", cell);
    }
}

TEST(a_page_of_a_gain_has_its_setting_and_every_arm) {
    const tune_request request = request_of(false);
    tune_result result = made_up(2, false, true);
    char *page = page_of(&request, &result);
    check_page(page, &result);
    CHECK(has(page, "Found.") && has(page, "WHET_CONFIG=it's &amp; more.json"));
    CHECK(has(page, "The chosen setting") && has(page, "layer 2, head 3: β = "));
    CHECK(has(page, "β at n = 64 keys") && has(page, "trained context: 16"));
    CHECK(has(page, "All check texts") && !has(page, "id=\"task\""));
    CHECK(has(page, "whet tune '&lt;b>&quot;it'\\''s&quot; &amp; &lt;/svg>' --html page.html"));
    free(page);
    tune_result_free(&result);
}

TEST(a_page_of_a_task_has_its_frontier) {
    const tune_request request = request_of(true);
    tune_result result = made_up(1, true, true);
    char *page = page_of(&request, &result);
    check_page(page, &result);
    CHECK(has(page, "id=\"task\"") && has(page, "right answer tokens"));
    CHECK(has(page, "Too far to the right or left to be drawn: linear:4"));
    free(page);
    tune_result_free(&result);
}

TEST(a_control_that_is_better_than_the_choice_is_named) {
    const tune_request request = request_of(true);
    tune_result result = made_up(1, true, true);
    CHECK(!tune_better_control(&result));
    char *page = page_of(&request, &result);
    CHECK(!has(page, "is better on the check texts"));
    free(page);
    add_row(&result, "one number at equal cost", 0, 2.5);
    CHECK_STR(tune_better_control(&result), "one number at equal cost");
    CHECK(tune_chosen_against(&result, "one number at equal cost").low > 0);
    page = page_of(&request, &result);
    check_page(page, &result);
    CHECK(has(page, "But one number at equal cost is better on the check texts"));
    free(page);
    result.is_confirmed = false; /* nothing is used that could be better or worse */
    CHECK(!tune_better_control(&result));
    tune_result_free(&result);
}

TEST(a_page_without_a_gain_says_so) {
    const tune_request request = request_of(false);
    tune_result result = made_up(1, false, false);
    char *page = page_of(&request, &result);
    check_page(page, &result);
    CHECK(has(page, "Nothing to gain.") && has(page, "<b>not</b> used"));
    CHECK(!has(page, "Found.") && !has(page, "To use it"));
    free(page);
    result.is_chosen = true; /* but not confirmed */
    add_row(&result, "chosen", 0, 3);
    page = page_of(&request, &result);
    check_page(page, &result);
    CHECK(has(page, "not confirmed by the check texts"));
    free(page);
    tune_result_free(&result);
}

/* Within the trained context nothing is beyond; single sequences have no intervals. */
TEST(numbers_that_are_missing_are_not_drawn) {
    const tune_request request = request_of(true);
    tune_result result = made_up(1, true, true);
    result.n0 = result.setting.n0 = CONTEXT;
    result.part = TUNE_ALL;
    result.check_counts[0] = result.task_count = 1;
    for (size_t i = 0; i < result.row_count; i++) {
        tune_measure *check = result.rows[i].check;
        for (size_t k = 0; k < SEQUENCES; k++)
            check->loss[TUNE_BEYOND][k] = (double)NAN;
        check->bins[0] = check->bins[7] = (double)NAN;
    }
    for (size_t k = 0; k < TUNE_BINS; k++)
        result.rows[1].check->bins[k] = (double)NAN;
    char *page = page_of(&request, &result);
    check_page(page, &result);
    CHECK(has(page, "β up to n = 64 keys") && !has(page, "β at n = "));
    free(page);
    tune_result_free(&result);
}

TEST(a_page_that_cannot_be_written_is_an_error) {
    const tune_request request = request_of(false);
    tune_result result = made_up(1, false, true);
    const tune_page page = {.request = &request, .result = &result, .out = "x"};
    lab_error error = {0};
    CHECK(!tune_page_write("/nowhere/at/all.html", &page, &error));
    CHECK(has(error.text, "/nowhere/at/all.html"));
    tune_result_free(&result);
}
