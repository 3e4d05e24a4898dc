// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// The task workloads of bench/internal/tasks as OpenMP tasks: the same objects, bodies, accesses and order of creation, the same
// checks, and creation inside the timed part.
//
//	libgomp WORKLOAD SIZE THREADS MIN_MILLISECONDS
//
// Each line on standard input asks for one sample: the workload is run until the timed parts add up to the minimum. The
// answer is one line: nanoseconds per task, then "ok" or "wrong" and what was wrong. The process, and with it OpenMP's
// thread pool, stays between samples.

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One cache line, as in Go.
typedef struct {
    int64_t version;
    int64_t bad;
    char pad[48];
} cell;

static char wrong[200]; // empty while the answer is right

#define WRONG(...) (void)(wrong[0] ? 0 : snprintf(wrong, sizeof wrong, __VA_ARGS__))

static void *lines(size_t count)
{
    void *p = aligned_alloc(64, count * sizeof(cell));
    if (!p) {
        fprintf(stderr, "libgomp: out of memory\n");
        exit(1);
    }
    return p;
}

// task/independent

static long size;
static uint8_t *marks;

static void independent_reset(void)
{
    if (!marks)
        marks = malloc(size);
    memset(marks, 0, size);
}

static void independent(void)
{
    for (long i = 0; i < size; i++) {
        uint8_t *mark = &marks[i];
        #pragma omp task firstprivate(mark)
        (*mark)++;
    }
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
static cell *cells;

static void chains_reset(void)
{
    if (!cells)
        cells = lines(objects);
    memset(cells, 0, objects * sizeof(cell));
}

static void chains(void)
{
    for (long k = 0; k < size / objects; k++)
        for (int i = 0; i < objects; i++) {
            cell *c = &cells[i];
            #pragma omp task firstprivate(c) depend(inout : *c)
            c->version++;
        }
}

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

static void readers_reset(void)
{
    if (!cells) {
        cells = lines(OBJECTS);
        counts = lines(OBJECTS * READERS);
        rounds = size / (OBJECTS * (1 + READERS));
        if (rounds < 1)
            rounds = 1;
    }
    memset(cells, 0, OBJECTS * sizeof(cell));
    memset(counts, 0, OBJECTS * READERS * sizeof(cell));
}

static void readers(void)
{
    for (long k = 0; k < rounds; k++)
        for (int o = 0; o < OBJECTS; o++) {
            cell *object = &cells[o];
            #pragma omp task firstprivate(object) depend(inout : *object)
            object->version++;
            for (int r = 0; r < READERS; r++) {
                cell *count = &counts[o][r];
                #pragma omp task firstprivate(object, count) depend(in : *object)
                {
                    count->version++;
                    if (object->version != count->version)
                        count->bad++;
                }
            }
        }
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

static void blocks_reset(void)
{
    long side = size + 2;
    if (!cells)
        cells = lines(side * side);
    memset(cells, 0, side * side * sizeof(cell));
    for (long i = 0; i < side; i++)
        cells[i].version = cells[i * side].version = cells[i * side + side - 1].version =
            cells[(side - 1) * side + i].version = GHOST;
}

static inline void update(cell *own, cell *n, cell *w, cell *e, cell *s)
{
    int64_t v = own->version;
    if ((n->version != v + 1 && n->version != GHOST) || (w->version != v + 1 && w->version != GHOST) ||
        (e->version != v && e->version != GHOST) || (s->version != v && s->version != GHOST))
        own->bad++;
    own->version = v + 1;
}

static void blocks(void)
{
    long side = size + 2;
    for (int t = 0; t < STEPS; t++)
        for (long r = 1; r <= size; r++)
            for (long c = 1; c <= size; c++) {
                cell *own = &cells[r * side + c], *n = own - side, *w = own - 1, *e = own + 1, *s = own + side;
                #pragma omp task firstprivate(own, n, w, e, s) \
                    depend(inout : *own) depend(in : *n, *w, *e, *s)
                update(own, n, w, e, s);
            }
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

static void forkjoin_reset(void) { result = -1; }

static void fib_task(int n, int64_t *out)
{
    int64_t a, b;
    if (n < 2) {
        *out = n;
        return;
    }
    #pragma omp task shared(a) firstprivate(n)
    fib_task(n - 1, &a);
    #pragma omp task shared(b) firstprivate(n)
    fib_task(n - 2, &b);
    #pragma omp taskwait
    *out = a + b;
}

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

static void forkjoin(void) { fib_task(size, &result); }

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

static const struct workload {
    const char *name;
    int objects;
    void (*reset)(void), (*create)(void), (*check)(void);
    long (*tasks)(void);
} workloads[] = {
    {"task/independent", 0, independent_reset, independent, independent_check, independent_tasks},
    {"task/chain", 1, chains_reset, chains, chains_check, chains_tasks},
    {"task/chains64", 64, chains_reset, chains, chains_check, chains_tasks},
    {"task/readers", 0, readers_reset, readers, readers_check, readers_tasks},
    {"task/blocks", 0, blocks_reset, blocks, blocks_check, blocks_tasks},
    {"task/forkjoin", 0, forkjoin_reset, forkjoin, forkjoin_check, forkjoin_tasks},
};

// run returns the seconds from the first creation to the completion of the last task.
static double run(const struct workload *w, int threads)
{
    double seconds = 0;
    #pragma omp parallel num_threads(threads)
    #pragma omp single
    {
        double began = omp_get_wtime();
        w->create();
        #pragma omp taskwait
        seconds = omp_get_wtime() - began;
    }
    return seconds;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: libgomp WORKLOAD SIZE THREADS MIN_MILLISECONDS\n");
        return 2;
    }
    const struct workload *w = NULL;
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (!strcmp(argv[1], workloads[i].name))
            w = &workloads[i];
    size = atol(argv[2]);
    int threads = atoi(argv[3]);
    double least = atof(argv[4]) / 1e3;
    if (!w || size < 1 || threads < 1) {
        fprintf(stderr, "libgomp: no such workload, or a size or thread count below one: %s %s %s\n", argv[1], argv[2], argv[3]);
        return 2;
    }
    objects = w->objects;
    omp_set_dynamic(0); // exactly as many threads as asked for

    char line[100];
    while (fgets(line, sizeof line, stdin)) {
        double total = 0;
        long runs = 0;
        do {
            w->reset();
            total += run(w, threads);
            runs++;
            w->check();
        } while (total < least && !wrong[0]);
        printf("%.6f %s %s\n", total * 1e9 / (runs * w->tasks()), wrong[0] ? "wrong" : "ok", wrong);
        fflush(stdout);
    }
    return 0;
}
