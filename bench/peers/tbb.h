// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// How oneTBB programs run a workload, and the task graphs that are made of accesses.

#ifndef WEFT_BENCH_TBB_H
#define WEFT_BENCH_TBB_H

#include <deque>
#include <memory>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

// A graph is a flow graph with a node per task. oneTBB has no accesses: the creator of a task names
// its predecessors. A node that is connected while the graph runs could miss the message of a
// predecessor that has ended. So the graph is built first and started when it is complete.
class graph {
public:
    using node = tbb::flow::continue_node<tbb::flow::continue_msg>;

    // add returns a task that runs body after the given tasks. A null pointer stands for no task.
    template <typename Body, typename... Nodes>
    node *add(Body body, Nodes *...before)
    {
        node *n = create(body);
        if (!(follow(n, before) | ... | false))
            first_.push_back(n);
        return n;
    }

    // add with a list of predecessors.
    template <typename Body>
    node *add_after(Body body, const std::vector<node *> &before)
    {
        node *n = create(body);
        for (node *b : before)
            follow(n, b);
        if (before.empty())
            first_.push_back(n);
        return n;
    }

    void run()
    {
        for (node *n : first_)
            n->try_put(tbb::flow::continue_msg());
        graph_.wait_for_all();
    }

private:
    template <typename Body>
    node *create(Body body)
    {
        return &nodes_.emplace_back(graph_, [body](const tbb::flow::continue_msg &) { body(); });
    }

    static bool follow(node *n, node *before)
    {
        if (before)
            tbb::flow::make_edge(*before, *n);
        return before != nullptr;
    }

    tbb::flow::graph graph_;
    std::deque<node> nodes_; // nodes cannot be moved, and the graph refers to them
    std::vector<node *> first_;
};

// The graph of the running workload. Its destruction is part of the time: the other systems release
// a task's memory when the task ends, and a program that creates tasks all the time could not keep
// them.
static std::unique_ptr<graph> tasks_graph;

static double timed(void (*create)(void))
{
    static tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    static tbb::task_arena arena(threads);
    double took = 0;
    arena.execute([&] {
        if (tbb::this_task_arena::max_concurrency() != threads)
            WRONG("oneTBB has %d threads, not %d", tbb::this_task_arena::max_concurrency(), threads);
        double began = seconds(CLOCK_MONOTONIC);
        create();
        tasks_graph.reset();
        took = seconds(CLOCK_MONOTONIC) - began;
    });
    return took;
}

#endif
