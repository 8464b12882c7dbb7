/* Reading, grouping and cutting texts. */
#define _POSIX_C_SOURCE 200809L

#include "tune/texts.h"

#include "base/files.h"
#include "built_in_text.h"
#include "lm/unicode.h"

#include <stdlib.h>
#include <string.h>

static const char white_space[] = " \t\r\n\v\f";

static bool tokenize_here(void *context, const char *const *texts, size_t count,
                          lm_token_list *lists, lab_error *error) {
    for (size_t i = 0; i < count; i++)
        if (!lm_tokenize_plain(context, texts[i], strlen(texts[i]), &lists[i], error))
            return false;
    return true;
}

tune_words tune_words_of(lm_tokenizer *tokenizer) {
    return (tune_words){.context = tokenizer,
                        .begin = tokenizer->adds_begin ? tokenizer->begin : LM_NO_TOKEN,
                        .tokenize = tokenize_here};
}

/* ---- reading ---- */

/* The folder of a path, to be freed: its own name, not those above it. */
static char *folder_name(const char *path) {
    const char *end = strrchr(path, '/');
    if (!end)
        return strdup(".");
    const char *start = end;
    while (start > path && start[-1] != '/')
        start--;
    return start == end ? strdup("/") : strndup(start, (size_t)(end - start));
}

static bool is_same_folder(const char *a, const char *b) {
    const char *end_a = strrchr(a, '/'), *end_b = strrchr(b, '/');
    size_t length_a = end_a ? (size_t)(end_a - a) : 0, length_b = end_b ? (size_t)(end_b - b) : 0;
    return length_a == length_b && strncmp(a, b, length_a) == 0;
}

static tune_domain *add_domain(tune_texts *texts, char *name) {
    tune_domain *domains = realloc(texts->domains, (texts->count + 1) * sizeof *domains);
    if (!domains || !name) {
        texts->domains = domains ? domains : texts->domains;
        free(name);
        return NULL;
    }
    texts->domains = domains;
    domains[texts->count] = (tune_domain){.name = name};
    return &domains[texts->count++];
}

/* The domain of a path's folder, made if need be. */
static tune_domain *domain_of(tune_texts *texts, const char *path) {
    for (size_t i = 0; i < texts->count; i++)
        if (is_same_folder(texts->domains[i].files[0].path, path))
            return &texts->domains[i];
    return add_domain(texts, folder_name(path));
}

/* What a text says, whatever its line ends are. */
static void hash_words(const char *text, size_t size, char hash[LAB_SHA256_SIZE]) {
    lab_sha256 sum = lab_sha256_start();
    for (size_t at = 0; at < size;) {
        size_t blanks = strspn(text + at, white_space),
               word = strcspn(text + at + blanks, white_space);
        at += blanks + word;
        lab_sha256_add(&sum, text + at - word, word);
        lab_sha256_add(&sum, " ", word > 0);
    }
    lab_sha256_text(sum, hash);
}

/* Texts that are to be tokenised, and of each the domain and its file there. */
typedef struct unread {
    char **texts;
    size_t *domains, *files, count;
} unread;

static bool create_unread(size_t count, unread *u) {
    *u = (unread){.texts = calloc(count + 1, sizeof *u->texts),
                  .domains = calloc(count + 1, sizeof *u->domains),
                  .files = calloc(count + 1, sizeof *u->files)};
    return u->texts && u->domains && u->files;
}

static void free_unread(unread *u) {
    for (size_t i = 0; i < u->count; i++)
        free(u->texts[i]);
    free(u->texts);
    free(u->domains);
    free(u->files);
}

/* Adds a file to a domain, without its tokens. */
static bool add_file(tune_domain *domain, const char *path, const char *text, size_t size) {
    tune_file *files = realloc(domain->files, (domain->file_count + 1) * sizeof *files);
    if (!files)
        return false;
    domain->files = files;
    tune_file *file = &files[domain->file_count++];
    lab_sha256 sum = lab_sha256_start();
    *file = (tune_file){.path = path, .bytes = size};
    lab_sha256_add(&sum, text, size);
    lab_sha256_text(sum, file->hash);
    hash_words(text, size, file->words);
    return true;
}

static bool add_tokens(tune_domain *domain, size_t file, const char *path,
                       const lm_token_list *tokens, lab_error *error) {
    domain->files[file].tokens = tokens->count;
    for (size_t i = 0; i < tokens->count; i++)
        if (!lm_token_list_add(&domain->tokens, tokens->items[i]))
            return lab_fail_memory(error);
    return tokens->count > 0 || lab_fail(error, LAB_INPUT, "%s: no text in it", path);
}

/* Tokenises what was read, in the order of `paths`. */
static bool tokenize_unread(tune_texts *texts, const unread *u, const char *const *paths,
                            const tune_words *words, lab_error *error) {
    lm_token_list *lists = calloc(u->count + 1, sizeof *lists);
    bool good = lists != NULL || lab_fail_memory(error);
    good = good &&
           words->tokenize(words->context, (const char *const *)u->texts, u->count, lists, error);
    for (size_t i = 0; good && i < u->count; i++)
        good = add_tokens(&texts->domains[u->domains[i]], u->files[i], paths[i], &lists[i], error);
    for (size_t i = 0; lists && i < u->count; i++)
        free(lists[i].items);
    free(lists);
    return good;
}

/* Replaces what is not UTF-8, which tokenizers read differently, by U+FFFD. */
static bool clean(const char *text, size_t size, lm_text *cleaned) {
    const uint32_t replacement = 0xFFFD;
    bool good = lm_text_add(cleaned, "", 0);
    for (size_t at = 0, bytes; good && at < size; at += bytes) {
        uint32_t code;
        char character[4];
        bytes = unicode_read(text + at, size - at, &code);
        good = code == UNICODE_NONE
                   ? lm_text_add(cleaned, character, unicode_write(replacement, character))
                   : lm_text_add(cleaned, text + at, bytes);
    }
    return good;
}

static bool read_one(tune_texts *texts, const char *path, unread *u, lab_error *error) {
    size_t size;
    char *text = lab_read_text(path, TUNE_TEXT_SIZE_MAX, &size, error);
    if (!text)
        return false;
    lm_text cleaned = {NULL, 0, 0};
    tune_domain *domain = domain_of(texts, path);
    bool good = domain && clean(text, size, &cleaned) && add_file(domain, path, text, size);
    free(text);
    if (!good) {
        free(cleaned.bytes);
        return lab_fail_memory(error);
    }
    u->domains[u->count] = (size_t)(domain - texts->domains);
    u->files[u->count] = domain->file_count - 1;
    u->texts[u->count++] = cleaned.bytes;
    return true;
}

static const tune_file *find_hash(const tune_texts *texts, const tune_file *like) {
    for (size_t i = 0; i < texts->count; i++)
        for (size_t j = 0; j < texts->domains[i].file_count; j++) {
            const tune_file *file = &texts->domains[i].files[j];
            if (file != like && strcmp(file->words, like->words) == 0)
                return file;
        }
    return NULL;
}

/* The first file that is also in `in`, and its other place. */
static const tune_file *find_shared(const tune_texts *texts, const tune_texts *in,
                                    const tune_file **there) {
    for (size_t i = 0; i < texts->count; i++)
        for (size_t j = 0; j < texts->domains[i].file_count; j++)
            if ((*there = find_hash(in, &texts->domains[i].files[j])) != NULL)
                return &texts->domains[i].files[j];
    return NULL;
}

bool tune_texts_read(const char *const *paths, size_t count, const tune_words *words,
                     tune_texts *texts, lab_error *error) {
    const tune_file *there = NULL, *twice = NULL;
    unread u;
    *texts = (tune_texts){.domains = NULL};
    bool good = create_unread(count, &u) || lab_fail_memory(error);
    for (size_t i = 0; good && i < count; i++)
        good = read_one(texts, paths[i], &u, error);
    if (good && count > 0)
        good = tokenize_unread(texts, &u, paths, words, error);
    if (good)
        twice = find_shared(texts, texts, &there);
    free_unread(&u);
    return good &&
           (!twice || lab_fail(error, LAB_INPUT, "%s and %s are the same text; leave one out",
                               twice->path, there->path));
}

void tune_texts_free(tune_texts *texts) {
    for (size_t i = 0; i < texts->count; i++) {
        free(texts->domains[i].name);
        free(texts->domains[i].files);
        free(texts->domains[i].tokens.items);
    }
    free(texts->domains);
    *texts = (tune_texts){.domains = NULL};
}

bool tune_texts_add_built_in(const tune_words *words, tune_texts *texts, lab_error *error) {
    const char *text = built_in_text;
    lm_token_list tokens = {NULL, 0, 0};
    tune_domain *domain = add_domain(texts, strdup("built-in"));
    if (!domain || !add_file(domain, "whet.h", text, sizeof built_in_text - 1))
        return lab_fail_memory(error);
    domain->is_built_in = true;
    bool good = words->tokenize(words->context, &text, 1, &tokens, error) &&
                add_tokens(domain, 0, "whet.h", &tokens, error);
    free(tokens.items);
    return good;
}

bool tune_texts_are_apart(const tune_texts *a, const char *one, const tune_texts *b,
                          const char *other, lab_error *error) {
    const tune_file *there;
    const tune_file *shared = find_shared(a, b, &there);
    return !shared ||
           lab_fail(error, LAB_INPUT, "%s of --%s is the same text as %s of --%s; keep them apart",
                    shared->path, one, there->path, other);
}

json_t *tune_texts_json(const tune_texts *texts) {
    json_t *domains = json_array();
    for (size_t i = 0; i < texts->count; i++) {
        const tune_domain *domain = &texts->domains[i];
        json_t *files = json_array();
        for (size_t j = 0; j < domain->file_count; j++)
            json_array_append_new(files, json_pack("{s:o, s:s, s:I}", "path",
                                                   lab_json_text(domain->files[j].path), "sha256",
                                                   domain->files[j].hash, "tokens",
                                                   (json_int_t)domain->files[j].tokens));
        json_array_append_new(domains, json_pack("{s:o, s:o}", "domain",
                                                 lab_json_text(domain->name), "files", files));
    }
    return domains;
}

/* ---- cutting ---- */

bool tune_set_cut(const tune_domain *domain, const lm_token_list *prefix, size_t length,
                  size_t limit, tune_set *set) {
    size_t own = length - prefix->count; /* tokens of text in a sequence */
    size_t all = domain->tokens.count / own, count = all < limit ? all : limit;
    *set = (tune_set){.count = count};
    if (count == 0)
        return true;
    set->list = calloc(count, sizeof *set->list);
    set->tokens = malloc(count * length * sizeof *set->tokens);
    if (!set->list || !set->tokens)
        return false;
    for (size_t i = 0; i < count; i++) {
        lm_token *to = set->tokens + i * length;
        set->list[i] = (tune_sequence){
            .tokens = to, .length = length, .from = prefix->count ? prefix->count : 1};
        if (prefix->count)
            memcpy(to, prefix->items, prefix->count * sizeof *to);
        memcpy(to + prefix->count, domain->tokens.items + i * all / count * own, own * sizeof *to);
    }
    return true;
}

void tune_set_free(tune_set *set) {
    free(set->list);
    free(set->tokens);
    *set = (tune_set){.list = NULL};
}
