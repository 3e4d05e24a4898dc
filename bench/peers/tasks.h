// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// The task workloads of bench/internal/tasks for C and C++: their objects, bodies and checks, which
// equal those in Go. A program defines the functions that are only declared here: they create the
// tasks with its library.

#ifndef WEFT_BENCH_TASKS_H
#define WEFT_BENCH_TASKS_H

#include "serve.h"

// One cache line, as in Go.
typedef struct {
    int64_t version;
    int64_t bad; // how often the task that owns the cell saw a wrong version of another cell
    char pad[48];
} cell;

static cell *cells;

// task/independent

static uint8_t *marks;

static void independent(void);

static inline void mark(uint8_t *m) { (*m)++; }

static void independent_reset(void)
{
    if (!marks)
        marks = (uint8_t *)malloc(size);
    memset(marks, 0, size);
}

static void independent_check(void)
{
    for (long i = 0; i < size; i++)
        if (marks[i] != 1)
            WRONG("task %ld of %ld ran %d times", i, size, marks[i]);
}

static long independent_tasks(void) { return size; }

// task/chain and task/chains64

static int objects = 1;

static void chains(void);

static inline void step(cell *c) { c->version++; }

static void chains_start(int count)
{
    objects = count;
    if (!cells)
        cells = (cell *)lines(objects);
    memset(cells, 0, objects * sizeof(cell));
}

static void chain_reset(void) { chains_start(1); }
static void chains64_reset(void) { chains_start(64); }

static void chains_check(void)
{
    for (int i = 0; i < objects; i++)
        if (cells[i].version != size / objects)
            WRONG("object %d has version %ld after %ld tasks", i, (long)cells[i].version, size / objects);
}

static long chains_tasks(void) { return size / objects * objects; }

// task/readers

enum { OBJECTS = 64, READERS = 8 };
static cell (*counts)[READERS];
static long rounds;

static void readers(void);

static inline void count_and_compare(const cell *object, cell *count)
{
    count->version++;
    if (object->version != count->version)
        count->bad++;
}

static void readers_reset(void)
{
    if (!cells) {
        cells = (cell *)lines(OBJECTS);
        counts = (cell(*)[READERS])lines(OBJECTS * READERS);
        rounds = size / (OBJECTS * (1 + READERS));
        if (rounds < 1)
            rounds = 1;
    }
    memset(cells, 0, OBJECTS * sizeof(cell));
    memset(counts, 0, OBJECTS * READERS * sizeof(cell));
}

static void readers_check(void)
{
    for (int o = 0; o < OBJECTS; o++) {
        if (cells[o].version != rounds)
            WRONG("object %d has version %ld after %ld writers", o, (long)cells[o].version, rounds);
        for (int r = 0; r < READERS; r++)
            if (counts[o][r].version != rounds || counts[o][r].bad)
                WRONG("reader %d of object %d ran %ld of %ld times and saw %ld wrong versions", r, o,
                      (long)counts[o][r].version, rounds, (long)counts[o][r].bad);
    }
}

static long readers_tasks(void) { return rounds * OBJECTS * (1 + READERS); }

// task/blocks

enum { STEPS = 10, GHOST = -1 };

static void blocks(void);

static inline void update(cell *own, const cell *n, const cell *w, const cell *e, const cell *s)
{
    int64_t v = own->version;
    if ((n->version != v + 1 && n->version != GHOST) || (w->version != v + 1 && w->version != GHOST) ||
        (e->version != v && e->version != GHOST) || (s->version != v && s->version != GHOST))
        own->bad++;
    own->version = v + 1;
}

static void blocks_reset(void)
{
    long side = size + 2;
    if (!cells)
        cells = (cell *)lines(side * side);
    memset(cells, 0, side * side * sizeof(cell));
    for (long i = 0; i < side; i++)
        cells[i].version = cells[i * side].version = cells[i * side + side - 1].version =
            cells[(side - 1) * side + i].version = GHOST;
}

static void blocks_check(void)
{
    long side = size + 2;
    for (long r = 1; r <= size; r++)
        for (long c = 1; c <= size; c++) {
            cell *x = &cells[r * side + c];
            if (x->version != STEPS || x->bad)
                WRONG("block (%ld,%ld) has version %ld after %d steps and saw %ld wrong versions", r - 1, c - 1,
                      (long)x->version, STEPS, (long)x->bad);
        }
}

static long blocks_tasks(void) { return size * size * STEPS; }

// task/forkjoin

static int64_t result;

static void forkjoin(void);

static int64_t fib(int n)
{
    int64_t a = 0, b = 1;
    for (; n > 0; n--) {
        int64_t next = a + b;
        a = b;
        b = next;
    }
    return a;
}

static void forkjoin_reset(void) { result = -1; }

static void forkjoin_check(void)
{
    if (result != fib(size))
        WRONG("fib(%ld) came out as %ld, is %ld", size, (long)result, (long)fib(size));
}

static long forkjoin_tasks(void)
{
    long n = 2 * fib(size + 1) - 2;
    return n > 1 ? n : 1;
}

int main(int argc, char **argv)
{
    static const workload workloads[] = {
        {"task/independent", independent_reset, independent, independent_check, independent_tasks},
        {"task/chain", chain_reset, chains, chains_check, chains_tasks},
        {"task/chains64", chains64_reset, chains, chains_check, chains_tasks},
        {"task/readers", readers_reset, readers, readers_check, readers_tasks},
        {"task/blocks", blocks_reset, blocks, blocks_check, blocks_tasks},
        {"task/forkjoin", forkjoin_reset, forkjoin, forkjoin_check, forkjoin_tasks},
    };
    return serve(argc, argv, workloads, sizeof workloads / sizeof *workloads);
}

#endif
