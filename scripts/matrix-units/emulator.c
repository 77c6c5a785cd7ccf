// Emulates AMX and AVX-512-BF16 for one program, on a processor that has AVX-512 and neither of them.
//
// Loaded by LD_PRELOAD (see ../emulate-matrix-units). CPUID is made to fault and answered as if the processor had both; the system
// call that asks for tiles is answered with yes; every instruction that the processor does not know raises SIGILL, and is carried
// out here as Intel's manual defines it: bf16 operands and results below the normal range are zeros, sums are rounded to nearest
// even, and a product of tiles adds up its even and its odd terms apart before both are added to the result.
//
// Instructions: ldtilecfg, sttilecfg, tilerelease, tilezero, tileloadd, tileloaddt1, tilestored, tdpbf16ps; vcvtneps2bf16,
// vcvtne2ps2bf16 and vdpbf16ps with masks, broadcasts and operands in memory. Any other ends the program with SIGILL, as without
// this. A trap costs some microseconds: it is for tests, not for times. On a processor that has both, products
// of tiles are emulated all the same, as the system lends tiles to nobody who has not asked, so that they can be compared with its own;
// all other instructions are the processor's.
#define _GNU_SOURCE
#include <errno.h>
#include <immintrin.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012, ARCH_REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
enum { TILES = 8, ROWS = 16, LINE = 64 };

// Tiles of a thread.
struct tiles {
    bool configured;
    uint8_t configuration[64];
    uint8_t data[TILES][ROWS][LINE];
};
static __thread struct tiles tiles;
// Offsets of the parts of the processor's state in a signal's frame: 5 masks, 6 upper halves of vectors 0 to 15, 7 vectors from 16 on,
// 17 the configuration of tiles.
enum { CONFIGURATION = 17 };
static uint32_t state_offset[CONFIGURATION + 1];

static long kernel(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

// The C library's function of this name, but for the request for tiles, which a system without them refuses.
long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_arch_prctl && a[0] == ARCH_REQUEST_PERMISSION && a[1] == TILE_DATA) return 0;
    long result = kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static void cpuid(uint32_t leaf, uint32_t sub, uint32_t out[4]) {
    __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(sub));
}

static void answer_cpuid(greg_t *registers) {
    uint32_t leaf = (uint32_t)registers[REG_RAX], sub = (uint32_t)registers[REG_RCX], out[4];
    kernel(SYS_arch_prctl, ARCH_SET_CPUID, 1, 0, 0, 0, 0);
    cpuid(leaf, sub, out);
    kernel(SYS_arch_prctl, ARCH_SET_CPUID, 0, 0, 0, 0, 0);
    if (leaf == 7 && sub == 0) {
        if (out[0] < 1) out[0] = 1;      // there is a sub-leaf 1
        out[3] |= 1u << 22 | 1u << 24;   // AMX-BF16, AMX-TILE
    }
    if (leaf == 7 && sub == 1) out[0] |= 1u << 5; // AVX512-BF16
    registers[REG_RAX] = out[0];
    registers[REG_RBX] = out[1];
    registers[REG_RCX] = out[2];
    registers[REG_RDX] = out[3];
    registers[REG_RIP] += 2;
}

// Numbers.

static float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

// Round to nearest even, no exceptions, operands and results below the normal range are zeros: what the emulated instructions do
// whatever a program has set. The system gives the program its own setting back when a signal's handler returns.
static void set_rounding(void) { _mm_setcsr(0x9fc0); }

static uint16_t to_bf16(float value) {
    uint32_t bits = as_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float add_product(float sum, uint16_t a, uint16_t b) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(as_float((uint32_t)a << 16)), _mm_set_ss(as_float((uint32_t)b << 16)), _mm_set_ss(sum)));
}

// Decoding.

struct instruction {
    const uint8_t *at; // the next byte
    bool evex;
    uint8_t map, prefix, opcode, modrm;
    bool w, r, x, b, r_high, v_high; // high bits of registers
    uint8_t v;
    uint8_t length;                  // of vectors: 16 << length bytes
    bool broadcast, zeroing;
    uint8_t mask;
};

static bool decode(const uint8_t *at, struct instruction *i) {
    memset(i, 0, sizeof *i);
    if (at[0] == 0xc4) {
        i->r = !(at[1] & 0x80), i->x = !(at[1] & 0x40), i->b = !(at[1] & 0x20), i->map = at[1] & 0x1f;
        i->w = at[2] & 0x80, i->v = ~at[2] >> 3 & 15, i->length = at[2] >> 2 & 1, i->prefix = at[2] & 3;
        i->at = at + 3;
    } else if (at[0] == 0x62) {
        i->evex = true;
        i->r = !(at[1] & 0x80), i->x = !(at[1] & 0x40), i->b = !(at[1] & 0x20), i->r_high = !(at[1] & 0x10);
        i->map = at[1] & 7, i->w = at[2] & 0x80, i->v = ~at[2] >> 3 & 15, i->prefix = at[2] & 3;
        i->zeroing = at[3] & 0x80, i->length = at[3] >> 5 & 3, i->broadcast = at[3] & 0x10;
        i->v_high = !(at[3] & 8), i->mask = at[3] & 7;
        i->at = at + 4;
    } else {
        return false;
    }
    i->opcode = *i->at++;
    i->modrm = *i->at++;
    return i->map == 2 && !i->w;
}

static int mod(const struct instruction *i) { return i->modrm >> 6; }
static int reg(const struct instruction *i) { return (i->modrm >> 3 & 7) | i->r << 3 | i->r_high << 4; }
static int rm(const struct instruction *i) { return (i->modrm & 7) | i->b << 3 | (i->evex && i->x) << 4; }
static int vvvv(const struct instruction *i) { return i->v | i->v_high << 4; }

static const int general[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// Address of the operand in memory, without its index where `stride` is given, which receives it. Displacements of one byte count `unit`s.
static uint8_t *address(struct instruction *i, const greg_t *registers, int unit, int64_t *stride) {
    int base = i->modrm & 7;
    int64_t at = 0, index = 0;
    bool no_base = false;
    if (base == 4) {
        uint8_t sib = *i->at++;
        int of_index = (sib >> 3 & 7) | i->x << 3;
        if (of_index != 4) index = registers[general[of_index]] << (sib >> 6);
        base = sib & 7;
        no_base = base == 5 && mod(i) == 0;
    } else if (base == 5 && mod(i) == 0) {
        int32_t displacement;
        memcpy(&displacement, i->at, 4);
        i->at += 4;
        return (uint8_t *)i->at + displacement; // from the next instruction
    }
    if (!no_base) at = registers[general[base | i->b << 3]];
    if (mod(i) == 1) at += (int64_t)(int8_t)*i->at++ * unit;
    if (mod(i) == 2 || no_base) {
        int32_t displacement;
        memcpy(&displacement, i->at, 4);
        i->at += 4;
        at += displacement;
    }
    if (stride) *stride = index;
    else at += index;
    return (uint8_t *)at;
}

// Tiles.

static int tile_rows(int tile) { return tiles.configuration[48 + tile]; }
static int tile_bytes(int tile) { return tiles.configuration[16 + 2 * tile] | tiles.configuration[17 + 2 * tile] << 8; }

static void add_product_of_tiles(int to, int a, int b) {
    // Tiles have zeros beyond their configured size, which add nothing that is kept.
    const __mmask16 columns = (__mmask16)((1u << tile_bytes(to) / 4) - 1);
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    for (int m = 0; m < tile_rows(to); m++) {
        __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
        for (int k = 0; k < tile_bytes(a) / 4; k++) {
            int32_t pair;
            memcpy(&pair, tiles.data[a][m] + 4 * k, 4);
            __m512i left = _mm512_set1_epi32(pair), right = _mm512_loadu_si512(tiles.data[b][k]);
            even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(left, 16)),
                                   _mm512_castsi512_ps(_mm512_slli_epi32(right, 16)), even);
            odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(left, upper)),
                                  _mm512_castsi512_ps(_mm512_and_si512(right, upper)), odd);
        }
        __m512 row = _mm512_loadu_ps(tiles.data[to][m]);
        _mm512_mask_storeu_ps(tiles.data[to][m], columns, _mm512_add_ps(row, _mm512_add_ps(even, odd)));
    }
}

static bool on_tiles(struct instruction *i, const greg_t *registers) {
    bool memory = mod(i) != 3;
    if (i->opcode == 0x49 && i->prefix == 0 && !memory) { // tilerelease
        memset(&tiles, 0, sizeof tiles);
        return true;
    }
    if (i->opcode == 0x49 && i->prefix == 0) { // ldtilecfg
        memset(&tiles, 0, sizeof tiles);
        memcpy(tiles.configuration, address(i, registers, 1, NULL), 64);
        tiles.configured = tiles.configuration[0] == 1;
        for (int tile = 0; tile < TILES; tile++)
            if (tile_rows(tile) > ROWS || tile_bytes(tile) > LINE || tile_bytes(tile) % 4) return false;
        return true;
    }
    if (i->opcode == 0x49 && i->prefix == 1 && memory) { // sttilecfg
        memcpy(address(i, registers, 1, NULL), tiles.configuration, 64);
        return true;
    }
    if (!tiles.configured) return false;
    int to = reg(i);
    if (to >= TILES) return false;
    if (i->opcode == 0x49 && i->prefix == 3 && !memory) { // tilezero
        memset(tiles.data[to], 0, sizeof tiles.data[to]);
        return true;
    }
    if (i->opcode == 0x4b && i->prefix && memory) { // tileloadd, tileloaddt1, tilestored
        int64_t stride;
        uint8_t *at = address(i, registers, 1, &stride);
        bool store = i->prefix == 2;
        if (!store) memset(tiles.data[to], 0, sizeof tiles.data[to]);
        for (int row = 0; row < tile_rows(to); row++, at += stride)
            store ? memcpy(at, tiles.data[to][row], tile_bytes(to)) : memcpy(tiles.data[to][row], at, tile_bytes(to));
        return true;
    }
    if (i->opcode == 0x5c && i->prefix == 2 && !memory) { // tdpbf16ps
        int a = rm(i), b = vvvv(i);
        if (a >= TILES || b >= TILES || to == a || to == b || a == b) return false;
        add_product_of_tiles(to, a, b);
        return true;
    }
    return false;
}

// Vectors.

static void read_vector(const uint8_t *state, int number, uint8_t to[64]) {
    if (number >= 16) {
        memcpy(to, state + state_offset[7] + 64 * (number - 16), 64);
        return;
    }
    memcpy(to, state + 160 + 16 * number, 16);
    memcpy(to + 16, state + 576 + 16 * number, 16);
    memcpy(to + 32, state + state_offset[6] + 32 * number, 32);
}

static void write_vector(uint8_t *state, int number, const uint8_t from[64]) {
    if (number >= 16) {
        memcpy(state + state_offset[7] + 64 * (number - 16), from, 64);
        return;
    }
    memcpy(state + 160 + 16 * number, from, 16);
    memcpy(state + 576 + 16 * number, from + 16, 16);
    memcpy(state + state_offset[6] + 32 * number, from + 32, 32);
}

static bool on_vectors(struct instruction *i, const greg_t *registers, uint8_t *state) {
    bool dot = i->opcode == 0x52 && i->prefix == 2, one = i->opcode == 0x72 && i->prefix == 2,
         two = i->opcode == 0x72 && i->prefix == 3;
    if (!dot && !one && !two) return false;
    if (i->length > 2) return false;
    int bytes = 16 << i->length, lanes = bytes / 4;
    uint8_t a[64], b[64], before[64], result[64] = {0};
    if (mod(i) == 3) {
        read_vector(state, rm(i), b);
    } else {
        uint8_t *at = address(i, registers, i->broadcast ? 4 : bytes, NULL);
        // Elements that are masked out are not read: a fault there would be ours alone.
        uint64_t reads = ~0ull;
        if (i->mask && !two) memcpy(&reads, state + state_offset[5] + 8 * i->mask, 8);
        memset(b, 0, sizeof b);
        for (int lane = 0; lane < lanes; lane++)
            if (reads >> lane & 1) memcpy(b + 4 * lane, at + (i->broadcast ? 0 : 4 * lane), 4);
    }
    read_vector(state, vvvv(i), a);
    read_vector(state, reg(i), before);
    uint64_t mask = ~0ull;
    if (i->mask) memcpy(&mask, state + state_offset[5] + 8 * i->mask, 8);
    if (dot) {
        for (int lane = 0; lane < lanes; lane++) {
            float sum;
            uint16_t left[2], right[2];
            memcpy(&sum, before + 4 * lane, 4), memcpy(left, a + 4 * lane, 4), memcpy(right, b + 4 * lane, 4);
            if (mask >> lane & 1) sum = add_product(add_product(sum, left[1], right[1]), left[0], right[0]);
            else if (i->zeroing) sum = 0;
            memcpy(result + 4 * lane, &sum, 4);
        }
    } else {
        int numbers = two ? 2 * lanes : lanes;
        for (int n = 0; n < numbers; n++) {
            float from;
            uint16_t to;
            memcpy(&from, n < lanes ? b + 4 * n : a + 4 * (n - lanes), 4);
            if (mask >> n & 1) to = to_bf16(from);
            else if (i->zeroing) to = 0;
            else memcpy(&to, before + 2 * n, 2);
            memcpy(result + 2 * n, &to, 2);
        }
    }
    write_vector(state, reg(i), result);
    return true;
}

// Signals.

static void give_up(int signal) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(signal, &action, NULL); // the instruction is tried again, and ends the program
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)info;
    int saved = errno;
    ucontext_t *u = context;
    greg_t *registers = u->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)registers[REG_RIP];
    if (signal == SIGSEGV) {
        if (at[0] == 0x0f && at[1] == 0xa2) answer_cpuid(registers);
        else give_up(signal);
        errno = saved;
        return;
    }
    uint8_t *state = (uint8_t *)u->uc_mcontext.fpregs;
    // Parts of the state that were never used are not stored: they are zeros, and in use from now on.
    uint64_t used;
    memcpy(&used, state + 512, 8);
    static const struct { int part, bytes; } parts[] = {{1, 256}, {2, 256}, {5, 64}, {6, 512}, {7, 1024}};
    for (int p = 0; p < 5; p++) {
        int part = parts[p].part, from = part == 1 ? 160 : part == 2 ? 576 : (int)state_offset[part];
        if (!(used >> part & 1)) memset(state + from, 0, parts[p].bytes);
        used |= 1ull << part;
    }
    memcpy(state + 512, &used, 8);
    // A processor with tiles has carried out `ldtilecfg` itself.
    if (used >> CONFIGURATION & 1) {
        memcpy(tiles.configuration, state + state_offset[CONFIGURATION], 64);
        tiles.configured = true;
    }
    set_rounding();
    struct instruction i;
    bool done = decode(at, &i) && (i.evex ? on_vectors(&i, registers, state) : on_tiles(&i, registers));
    if (done) registers[REG_RIP] = (greg_t)i.at;
    else {
        fprintf(stderr, "matrix units: no emulation of the instruction");
        for (int byte = 0; byte < 10; byte++) fprintf(stderr, " %02x", at[byte]);
        fprintf(stderr, "\n");
        give_up(signal);
    }
    errno = saved;
}

__attribute__((constructor)) static void start(void) {
    uint32_t out[4];
    for (int part = 5; part <= CONFIGURATION; part++) {
        cpuid(0xd, part, out);
        state_offset[part] = out[1];
    }
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    if (kernel(SYS_arch_prctl, ARCH_SET_CPUID, 0, 0, 0, 0, 0) != 0) {
        fprintf(stderr, "matrix units cannot be emulated: this machine does not let CPUID fault\n");
        _exit(2);
    }
}
