/* Packing: sort, cut, fill. A sequence of count tokens has count - 1 positions: the token after the
 * last is unknown. */
#include "lm/pack.h"

#include <stdlib.h>

static size_t positions_of(const lm_sequences *sequences, uint32_t index) {
    return sequences->list[index].count - 1;
}

/* Longest first, and of equal ones the earlier: insertion into runs of equal length would do, but
 * counting is simpler and does not depend on a library's sort. */
static bool sort_by_length(const lm_sequences *sequences, uint32_t *order) {
    size_t longest = 0;
    for (uint32_t i = 0; i < sequences->count; i++)
        longest = positions_of(sequences, i) > longest ? positions_of(sequences, i) : longest;
    size_t *starts = calloc(longest + 2, sizeof *starts);
    if (!starts)
        return false;
    for (uint32_t i = 0; i < sequences->count; i++)
        starts[longest - positions_of(sequences, i) + 1]++;
    for (size_t i = 1; i <= longest; i++)
        starts[i] += starts[i - 1];
    for (uint32_t i = 0; i < sequences->count; i++)
        order[starts[longest - positions_of(sequences, i)]++] = i;
    free(starts);
    return true;
}

/* Without copying: the old contents are not needed. */
static void *renew(void *items, size_t count, size_t element) {
    free(items);
    return calloc(count, element);
}

static bool reserve_piece(lm_packed *packed, size_t count) {
    if (count <= packed->piece_capacity)
        return true;
    packed->pieces = renew(packed->pieces, count, sizeof *packed->pieces);
    packed->order = renew(packed->order, count, sizeof *packed->order);
    packed->exact = renew(packed->exact, count, sizeof *packed->exact);
    bool is_there = packed->pieces && packed->order && packed->exact;
    packed->piece_capacity = is_there ? count : 0;
    return is_there;
}

static bool reserve_tokens(lm_packed *packed, size_t tokens) {
    if (tokens <= packed->token_capacity)
        return true;
    packed->tokens = renew(packed->tokens, tokens, sizeof *packed->tokens);
    packed->labels = renew(packed->labels, tokens, sizeof *packed->labels);
    packed->at = renew(packed->at, tokens, sizeof *packed->at);
    packed->weights = renew(packed->weights, tokens, sizeof *packed->weights);
    packed->is_answer = renew(packed->is_answer, tokens, sizeof *packed->is_answer);
    bool is_there =
        packed->tokens && packed->labels && packed->at && packed->weights && packed->is_answer;
    packed->token_capacity = is_there ? tokens : 0;
    return is_there;
}

static size_t capacity_of_piece(const lm_sequences *sequences) {
    size_t wanted = sequences->token_count / LM_PIECES_WANTED;
    if (wanted > LM_PIECE_MOST)
        return LM_PIECE_MOST;
    return wanted < LM_PIECE_LEAST ? LM_PIECE_LEAST : wanted;
}

/* Number of sequences from `first` on in a piece. */
static size_t rows_from(const lm_sequences *sequences, const lm_packed *packed, size_t first,
                        size_t capacity) {
    size_t length = positions_of(sequences, packed->order[first]), left = sequences->count - first;
    size_t rows = length > 0 && length < capacity ? capacity / length : 1;
    return rows < left ? rows : left;
}

typedef struct filler {
    const lm_sequences *sequences;
    lm_loss loss;
    lm_weigh weigh;
    lm_packed *packed;
    size_t tokens, targets; /* written so far, in all pieces */
} filler;

static float weight_of(const filler *with, const lm_sequence *sequence) {
    if (with->weigh == LM_WEIGH_TOKENS)
        return 1;
    uint32_t first = with->loss == LM_LOSS_ALL ? 1 : sequence->answer;
    return 1.0F / (float)(sequence->count - first);
}

static void fill_row(filler *with, const lm_sequence *sequence, size_t row, lm_piece *piece) {
    lm_packed *packed = with->packed;
    const lm_token *from = with->sequences->tokens + sequence->offset;
    float weight = weight_of(with, sequence);
    for (size_t i = 0; i < piece->length; i++) {
        bool is_real = i + 1 < sequence->count, is_answer = i + 1 >= sequence->answer;
        packed->tokens[with->tokens++] = is_real ? from[i] : LM_TOKEN_PADDING;
        if (!is_real || (with->loss == LM_LOSS_ANSWER && !is_answer))
            continue;
        packed->at[with->targets] = (uint32_t)(row * piece->length + i);
        packed->labels[with->targets] = from[i + 1];
        packed->weights[with->targets] = weight;
        packed->is_answer[with->targets++] = is_answer;
        packed->weight += weight;
        piece->targets++;
    }
}

static void fill_piece(filler *with, size_t first, size_t rows) {
    lm_packed *packed = with->packed;
    lm_piece *piece = &packed->pieces[packed->count++];
    *piece = (lm_piece){.rows = rows,
                        .length = positions_of(with->sequences, packed->order[first]),
                        .tokens = packed->tokens + with->tokens,
                        .at = packed->at + with->targets,
                        .labels = packed->labels + with->targets,
                        .weights = packed->weights + with->targets,
                        .is_answer = packed->is_answer + with->targets,
                        .exact = packed->exact + first};
    for (size_t row = 0; row < rows; row++)
        fill_row(with, &with->sequences->list[packed->order[first + row]], row, piece);
}

static size_t tokens_with_filling(const lm_sequences *sequences, const lm_packed *packed,
                                  size_t capacity) {
    size_t tokens = 0;
    for (size_t first = 0, rows; first < sequences->count; first += rows) {
        rows = rows_from(sequences, packed, first, capacity);
        tokens += rows * positions_of(sequences, packed->order[first]);
    }
    return tokens;
}

bool lm_pack(const lm_sequences *sequences, lm_loss loss, lm_weigh weigh, lm_packed *packed) {
    size_t capacity = capacity_of_piece(sequences);
    packed->count = 0;
    packed->weight = 0;
    if (!reserve_piece(packed, sequences->count) || !sort_by_length(sequences, packed->order) ||
        !reserve_tokens(packed, tokens_with_filling(sequences, packed, capacity)))
        return false;
    filler with = {.sequences = sequences, .loss = loss, .weigh = weigh, .packed = packed};
    for (size_t first = 0, rows; first < sequences->count; first += rows) {
        rows = rows_from(sequences, packed, first, capacity);
        fill_piece(&with, first, rows);
    }
    return true;
}

void lm_packed_free(lm_packed *packed) {
    free(packed->pieces);
    free(packed->order);
    free(packed->exact);
    free(packed->tokens);
    free(packed->labels);
    free(packed->at);
    free(packed->weights);
    free(packed->is_answer);
    *packed = (lm_packed){.count = 0};
}
