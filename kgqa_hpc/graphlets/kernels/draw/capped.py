"""Choosing graphlets in rounds so that no vertex occurs in too many of them."""

import numpy as np

from kgqa_hpc.jit import helper, kernel


@kernel
def choose_capped(order, starts, nodes, most, turns, factor, rounds, refused):
    """Choose rows of `nodes` int32 (N, 5) so that no vertex occurs in more than `most` (graphlets.balance).

    Pool s is the rows order[starts[s]:starts[s + 1]] (int64). In each of `turns` rounds, every pool gives its
    next rows without a full vertex, until it has given as many as there were rounds, or its visible rows end;
    each round makes `factor` more rows visible. rounds int64 (N,): the round in which a row was chosen, -1
    where it was not; refused uint8 (N,): a bit for each full vertex of a row that was passed over. Returns the
    number of rows that each pool examined, up to its next row without a full vertex, int64 (pools,).
    """
    pools = starts.shape[0] - 1
    load = np.zeros(np.int64(nodes.max()) + 1 if nodes.shape[0] else 1, np.int64)
    position = np.zeros(pools, np.int64)
    accepted = np.zeros(pools, np.int64)
    for turn in range(turns + 1):  # the last turn chooses nothing
        for s in range(pools):
            size = starts[s + 1] - starts[s]
            visible = min(factor * (turn + 1), size) if turn < turns else size
            while accepted[s] <= turn and position[s] < visible:
                row = order[starts[s] + position[s]]
                refused[row] = _full(nodes[row], load, most)
                if refused[row] == 0:
                    if turn == turns:
                        break
                    rounds[row] = turn
                    accepted[s] += 1
                    for v in nodes[row]:
                        if v >= 0:
                            load[v] += 1
                position[s] += 1
    return position


@helper
def _full(members, load, most):
    bits = np.uint8(0)
    for i in range(members.shape[0]):
        if members[i] >= 0 and load[members[i]] >= most:
            bits |= np.uint8(1 << i)
    return bits
