#include "digest.h"
void digest_attention(void) {}
