/* Blocks of ggml's iq types as floats; see types.h for the sizes. */
#ifndef WHET_LAB_GGUF_IQ_TYPES_H
#define WHET_LAB_GGUF_IQ_TYPES_H

#include <stdint.h>

void gguf_read_iq1_s(const uint8_t *block, float *out);
void gguf_read_iq1_m(const uint8_t *block, float *out);
void gguf_read_iq2_xxs(const uint8_t *block, float *out);
void gguf_read_iq2_xs(const uint8_t *block, float *out);
void gguf_read_iq2_s(const uint8_t *block, float *out);
void gguf_read_iq3_xxs(const uint8_t *block, float *out);
void gguf_read_iq3_s(const uint8_t *block, float *out);
void gguf_read_iq4_nl(const uint8_t *block, float *out);
void gguf_read_iq4_xs(const uint8_t *block, float *out);

#endif
