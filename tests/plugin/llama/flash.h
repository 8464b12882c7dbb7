/*
 * Flash attention of a host: since September 2025 on, off or automatic; before that a flag, off by
 * default. The build finds out which (WHET_LLAMA_HAS_FLASH_FLAG).
 */
#ifndef WHET_TESTS_PLUGIN_FLASH_H
#define WHET_TESTS_PLUGIN_FLASH_H

#include <llama.h>

typedef enum flash_kind { FLASH_AUTO, FLASH_ON, FLASH_OFF } flash_kind;

static inline void set_flash(struct llama_context_params *params, flash_kind kind) {
#ifdef WHET_LLAMA_HAS_FLASH_FLAG
    params->flash_attn = kind == FLASH_ON;
#else
    params->flash_attn_type = kind == FLASH_ON    ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                              : kind == FLASH_OFF ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                                                  : LLAMA_FLASH_ATTN_TYPE_AUTO;
#endif
}

#endif
