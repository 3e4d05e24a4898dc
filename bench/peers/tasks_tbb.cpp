// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// The task workloads in oneTBB: a task group where tasks have no accesses, else a flow graph.

#include "tasks.h"
#include "tbb.h"

static void independent(void)
{
    tbb::task_group group;
    for (long i = 0; i < size; i++) {
        uint8_t *m = &marks[i];
        group.run([m] { mark(m); });
    }
    group.wait();
}

static void chains(void)
{
    tasks_graph = std::make_unique<graph>();
    std::vector<graph::node *> last(objects);
    for (long k = 0; k < size / objects; k++)
        for (int i = 0; i < objects; i++) {
            cell *c = &cells[i];
            last[i] = tasks_graph->add([c] { step(c); }, last[i]);
        }
    tasks_graph->run();
}

static void readers(void)
{
    tasks_graph = std::make_unique<graph>();
    std::vector<std::vector<graph::node *>> last(OBJECTS); // the readers of each object's version
    for (long k = 0; k < rounds; k++)
        for (int o = 0; o < OBJECTS; o++) {
            cell *object = &cells[o];
            graph::node *writer = tasks_graph->add_after([object] { step(object); }, last[o]);
            last[o].clear();
            for (int r = 0; r < READERS; r++) {
                cell *count = &counts[o][r];
                last[o].push_back(tasks_graph->add([object, count] { count_and_compare(object, count); }, writer));
            }
        }
    tasks_graph->run();
}

static void blocks(void)
{
    tasks_graph = std::make_unique<graph>();
    long side = size + 2;
    std::vector<graph::node *> last(side * side); // null for the frame
    for (int t = 0; t < STEPS; t++)
        for (long r = 1; r <= size; r++)
            for (long c = 1; c <= size; c++) {
                long i = r * side + c;
                cell *own = &cells[i], *n = own - side, *w = own - 1, *e = own + 1, *s = own + side;
                last[i] = tasks_graph->add([=] { update(own, n, w, e, s); }, last[i], last[i - side], last[i - 1], last[i + 1],
                                           last[i + side]);
            }
    tasks_graph->run();
}

static void fib_task(int n, int64_t *out)
{
    int64_t a, b;
    if (n < 2) {
        *out = n;
        return;
    }
    tbb::task_group group;
    group.run([n, &a] { fib_task(n - 1, &a); });
    group.run([n, &b] { fib_task(n - 2, &b); });
    group.wait();
    *out = a + b;
}

static void forkjoin(void) { fib_task(size, &result); }
