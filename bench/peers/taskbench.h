// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// The graphs of bench/internal/taskbench for C and C++: memory, kernels, the body of a task and the
// checks, which equal those in Go. The graph is read from a file, so there is one definition of the
// patterns. A program defines the functions that are only declared here: they create the tasks with
// its library.
//
// A sample's parameter is the number of iterations of a task's kernel. Its expected number is the
// number of iterations of all tasks together.

#ifndef WEFT_BENCH_TASKBENCH_H
#define WEFT_BENCH_TASKBENCH_H

#include <math.h>

#include "serve.h"

// The output of a task: the step and point that wrote it. One cache line, as in Go.
typedef struct {
    int64_t step, point;
    double value;
    int64_t runs, work;
    char pad[24];
} tile;

// The dependences of a task; see point in bench/internal/taskbench/graph.go.
typedef struct {
    int needs, inputs, follows, older;
    int *need, *input, *follow;
} point;

// A row of tasks.
typedef struct {
    int first, count;
    point *points;
} row;

static int width, steps, kinds;
static row *rows; // the different ones
static int *kind; // of each step, an index in rows

static tile *tiles[2];   // step t writes tiles[t % 2]
// for each tile, if the kernel wants any; for each thread where they are more than the points
static char **memory[2];
static int memories;     // how many for each of the two

static enum { EMPTY, COMPUTE, MEMORY, IMBALANCE } kernel;
static double imbalance;
static long scratch;

static void graph_create(void);
static void peak_create(void);

static row *row_of(int t) { return &rows[kind[t]]; }

// The kernels. An iteration must be the same as in kernel.go.

enum { BLOCK = 1024 };

static double uniform(uint64_t a, uint64_t b)
{
    uint64_t values[2] = {a, b}, h = 0;
    for (int i = 0; i < 2; i++) {
        h += values[i] + 0x9e3779b97f4a7c15u;
        h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
        h = (h ^ h >> 27) * 0x94d049bb133111ebu;
        h ^= h >> 31;
    }
    return (double)(h >> 11) / (double)(1ll << 53);
}

static long iterations(int t, int p)
{
    if (kernel != IMBALANCE)
        return parameter;
    return (long)round((1 + (uniform(t, p) - 0.5) * imbalance) * (double)parameter);
}

static double compute(long n)
{
    double a = 0.1, b = 0.2, c = 0.3, d = 0.4, e = 0.5, f = 0.6, g = 0.7, h = 0.8;
    const double m = 0.75, k = 0.25;
    for (long i = 0; i < n; i++) {
        a = a * m + k;
        b = b * m + k;
        c = c * m + k;
        d = d * m + k;
        e = e * m + k;
        f = f * m + k;
        g = g * m + k;
        h = h * m + k;
    }
    return a + b + c + d + e + f + g + h;
}

static double move(long n, int t, char *own)
{
    long blocks = scratch / 2 / BLOCK, at = t * n % blocks;
    for (long i = 0; i < n; i++) {
        memcpy(own + scratch / 2 + at * BLOCK, own + at * BLOCK, BLOCK);
        if (++at == blocks)
            at = 0;
    }
    return own[scratch / 2];
}

static double run_kernel(long n, int t, char *own)
{
    switch (kernel) {
    case COMPUTE:
    case IMBALANCE:
        return compute(n);
    case MEMORY:
        return move(n, t, own);
    default:
        return 0;
    }
}

// execute is the body of the task at (t, p).
static inline void execute(int t, int p)
{
    const row *r = row_of(t);
    const point *self = &r->points[p - r->first];
    const tile *before = tiles[(t + 1) & 1];
    if (self->inputs != self->needs)
        WRONG("the task at step %d, point %d got %d inputs where it needs %d", t, p, self->inputs, self->needs);
    else
        for (int i = 0; i < self->inputs; i++) {
            const tile *got = &before[self->input[i]];
            if (got->step != t - 1 || got->point != self->need[i])
                WRONG("the task at step %d, point %d got the output of (%ld, %ld) where it needs that of (%d, %d)", t, p,
                      (long)got->step, (long)got->point, t - 1, self->need[i]);
        }
    long n = iterations(t, p);
    double value = run_kernel(n, t, memory[t & 1][p]);
    tile *out = &tiles[t & 1][p];
    out->step = t;
    out->point = p;
    out->value = value;
    out->runs++;
    out->work += n;
}

// number reads the next number of the file.
static long number(FILE *f)
{
    long n;
    if (fscanf(f, "%ld", &n) != 1) {
        fprintf(stderr, "%s: a number is missing\n", file);
        exit(1);
    }
    return n;
}

static int *numbers(FILE *f, int *count)
{
    *count = number(f);
    int *list = (int *)malloc((*count + 1) * sizeof(int));
    for (int i = 0; i < *count; i++)
        list[i] = number(f);
    return list;
}

static void load(void)
{
    FILE *f = fopen(file, "r");
    char name[20];
    static const char *const names[] = {"empty", "compute", "memory", "imbalanced"};
    if (!f || fscanf(f, "%19s %lf %ld", name, &imbalance, &scratch) != 3) {
        fprintf(stderr, "%s: no graph\n", file);
        exit(1);
    }
    while (strcmp(name, names[kernel]))
        kernel = (__typeof__(kernel))(kernel + 1);
    width = number(f);
    steps = number(f);
    kinds = number(f);
    rows = (row *)calloc(kinds, sizeof(row));
    for (row *r = rows; r < rows + kinds; r++) {
        r->first = number(f);
        r->count = number(f);
        r->points = (point *)calloc(r->count, sizeof(point));
        for (point *p = r->points; p < r->points + r->count; p++) {
            p->need = numbers(f, &p->needs);
            p->input = numbers(f, &p->inputs);
            p->follow = numbers(f, &p->follows);
            p->older = number(f);
        }
    }
    kind = (int *)malloc(steps * sizeof(int));
    for (int t = 0; t < steps; t++)
        kind[t] = number(f);
    fclose(f);

    for (int b = 0; b < 2; b++) {
        tiles[b] = (tile *)lines(width);
        memories = width > threads ? width : threads;
        memory[b] = (char **)calloc(memories, sizeof(char *));
        for (int p = 0; kernel == MEMORY && p < memories; p++) {
            memory[b][p] = (char *)lines(scratch / 64);
            memset(memory[b][p], 1, scratch);
        }
    }
}

static void graph_reset(void)
{
    if (!rows)
        load();
    for (int b = 0; b < 2; b++) {
        memset(tiles[b], 0, width * sizeof(tile));
        for (int p = 0; p < width; p++)
            tiles[b][p].step = tiles[b][p].point = -1;
    }
}

static void graph_check(void)
{
    tile *want[2];
    for (int b = 0; b < 2; b++)
        memset(want[b] = (tile *)lines(width), 0, width * sizeof(tile));
    long total = 0;
    for (int t = 0; t < steps; t++)
        for (int p = row_of(t)->first; p < row_of(t)->first + row_of(t)->count; p++) {
            tile *w = &want[t & 1][p];
            w->step = t;
            w->point = p;
            w->runs++;
            w->work += iterations(t, p);
            total += iterations(t, p);
        }
    if (total != expected)
        WRONG("the tasks make %ld iterations, not %ld", total, expected);
    for (int b = 0; b < 2; b++) {
        for (int p = 0; p < width; p++) {
            const tile *g = &tiles[b][p], *w = &want[b][p];
            if (g->runs != w->runs || (w->runs && (g->step != w->step || g->point != w->point)) || g->work != w->work)
                WRONG("output %d of point %d: %ld tasks up to (%ld, %ld), %ld iterations; not %ld, (%ld, %ld), %ld", b, p,
                      (long)g->runs, (long)g->step, (long)g->point, (long)g->work, (long)w->runs, (long)w->step,
                      (long)w->point, (long)w->work);
        }
        free(want[b]);
    }
}

static long graph_tasks(void)
{
    long n = 0;
    for (int t = 0; t < steps; t++)
        n += row_of(t)->count;
    return n;
}

// The peak: the iterations of the graph's tasks, in one part for each thread. A thread uses the
// memory of every threads-th point in turn, so all memory is used, and none by two threads.

static volatile double peak_result;

static void peak_part(int thread)
{
    double sum = 0;
    long tasks = graph_tasks();
    int p = thread, b = 0;
    for (long i = thread; i < tasks; i += threads) {
        sum += run_kernel(parameter, 0, memory[b][p]);
        p += threads;
        if (p >= memories) {
            p = thread;
            b ^= 1;
        }
    }
    peak_result = sum;
}

static void peak_check(void) {}

int main(int argc, char **argv)
{
    static const workload workloads[] = {
        {"graph", graph_reset, graph_create, graph_check, graph_tasks},
        {"peak", graph_reset, peak_create, peak_check, graph_tasks},
    };
    return serve(argc, argv, workloads, sizeof workloads / sizeof *workloads);
}

#endif
