"""Sums over link graphs: the graph among the neighbours of one vertex.

A shape with a vertex adjacent to all others is that vertex plus a smaller shape in its link (ESCAPE's view
of wheels, gems and cliques). The link of v is built from the triangle lists, in local positions 0..d-1 of
v's row, so all lookups stay in a few kilobytes. 5-cliques are counted on bit rows, 64 candidates a word
(ours). O(sum of te^2) time.
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.triangles import carry_over
from kgqa_hpc.jit import helper, kernel

# Indices of the sums; da and db are the degrees of an edge's ends in the link, te the triangles on an edge.
GEM = 0  # over link edges: (da - 1) * (db - 1); paths of 4 vertices, and triangles
WHEEL = 1  # 4-cycles of the link; each wheel once
CLIQUE_TRIANGLE = 2  # over slots: 4-cliques on the edge * (te - 2); each twice
CLIQUE_MINUS = 3  # over link edges: C(link triangles, 2); each clique minus edge three times
CLIQUE = 4  # 5-cliques, each once, at its last vertex
LINK_SUMS = 5


@kernel
def link_sums(start, step, indptr, indices, starts, corners, rooted):
    """Sums of the roots start, start + step, …; int64 (2, LINK_SUMS), low and high parts (triangles.carry_over).

    Fills `rooted` int64 (n, 2) with the 4-cliques through each vertex, and its share of CLIQUE_TRIANGLE.
    """
    n = indptr.shape[0] - 1
    sums = np.zeros((2, LINK_SUMS), np.int64)
    widest = 0
    for v in range(n):
        widest = max(widest, indptr[v + 1] - indptr[v])
    position = np.zeros(n, np.int32)
    begin = np.zeros(widest + 1, np.int64)
    link = np.empty(1024, np.int32)
    mark = np.zeros(widest + 1, np.uint8)
    walks = np.zeros((widest + 1, 2), np.int32)
    on_edge = np.empty(1024, np.int32)
    touched = np.empty(widest + 1, np.int32)
    on_slots = np.zeros(widest + 1, np.int64)
    for v in range(start, n, step):
        base = indptr[v]
        d = indptr[v + 1] - base
        size = starts[indptr[v + 1]] - starts[base]
        if size == 0:
            continue
        if size > link.shape[0]:
            link = np.empty(2 * size, np.int32)
            on_edge = np.empty(2 * size, np.int32)
        for a in range(d):
            position[indices[base + a]] = a
        for a in range(d):
            begin[a] = starts[base + a] - starts[base]
            for i in range(starts[base + a], starts[base + a + 1]):
                link[i - starts[base]] = position[corners[i]]
        begin[d] = size
        if _is_dense(d, begin):
            rooted[v, 0] = _sums_of_dense_link(d, begin, link, mark, on_slots, sums[0])
        else:
            rooted[v, 0] = _sums_of_link(d, begin, link, walks, touched, on_edge, on_slots, sums[0])
        for a in range(d):
            rooted[v, 1] += on_slots[a] // 2 * (begin[a + 1] - begin[a] - 2)
        sums[0, CLIQUE_TRIANGLE] += rooted[v, 1]
        earlier = 0
        while earlier < d and indices[base + earlier] < v:
            earlier += 1
        if earlier >= 4:
            sums[0, CLIQUE] += _four_cliques(earlier, begin, link)
        carry_over(sums[0], sums[1])
    return sums


@helper
def _sums_of_link(d, begin, link, walks, touched, on_edge, on_slots, low):
    """Add the sums of one link to `low`; return its triangles, that is the 4-cliques through the root.

    on_slots[a] becomes twice the 4-cliques on the edge of slot a. A triangle is found at its first position a
    and added to its three edges; a 4-cycle of the link, which is a wheel, at its first position too, by the
    paths a - b - z with labels above a (as in kernels.count_cycles for the whole graph). walks int32
    (d, 2) holds for each z the paths that lead to it and one more than its slot in a's row, both 0 before
    and after.
    """
    on_slots[:d] = 0
    on_edge[: begin[d]] = 0
    for a in range(d):
        after = begin[a + 1]
        while after > begin[a] and link[after - 1] > a:
            after -= 1
            walks[link[after], 1] = after + 1
        reached = 0
        for i in range(after, begin[a + 1]):
            b = link[i]
            j = begin[b + 1] - 1
            while link[j] > b:
                z = link[j]
                touched[reached] = z
                reached += walks[z, 0] == 0
                walks[z, 0] += 1
                if walks[z, 1] > 0:
                    on_edge[walks[z, 1] - 1] += 1
                    on_edge[i] += 1
                    on_edge[j] += 1
                j -= 1
            while link[j] > a:  # the loop ends at a, which is a neighbour of b
                z = link[j]
                touched[reached] = z
                reached += walks[z, 0] == 0
                walks[z, 0] += 1
                j -= 1
        for i in range(reached):
            w = np.int64(walks[touched[i], 0])
            low[WHEEL] += w * (w - 1) // 2
            walks[touched[i], 0] = 0
        for i in range(after, begin[a + 1]):
            walks[link[i], 1] = 0
    triangles = np.int64(0)
    for a in range(d):
        for i in range(begin[a + 1] - 1, begin[a] - 1, -1):
            b = link[i]
            if b < a:
                break
            shared = np.int64(on_edge[i])
            _add_edge(begin[a + 1] - begin[a], begin[b + 1] - begin[b], shared, low)
            triangles += shared
            on_slots[a] += shared
            on_slots[b] += shared
    return triangles // 3


@helper
def _add_edge(da, db, shared, low):
    low[GEM] += (da - 1) * (db - 1)
    low[CLIQUE_MINUS] += shared * (shared - 1) // 2


@helper
def _is_dense(d, begin):
    """Whether comparing all pairs of bit rows is less work than walking all paths of two edges."""
    steps = np.int64(0)
    present = np.int64(0)
    for a in range(d):
        size = begin[a + 1] - begin[a]
        steps += size * size
        present += size > 0
    return steps > 2 * present * present * ((d + 63) // 64)


@helper
def _sums_of_dense_link(d, begin, link, mark, on_slots, low):
    """Add the sums of `_sums_of_link`, computed from bit rows."""
    words = (d + 63) // 64
    rows = np.zeros((d, words), np.uint64)
    on_slots[:d] = 0
    present = np.empty(d, np.int64)
    size = 0
    for a in range(d):
        for i in range(begin[a], begin[a + 1]):
            rows[a, link[i] >> 6] |= np.uint64(1) << np.uint64(link[i] & 63)
        if begin[a + 1] > begin[a]:
            present[size] = a
            size += 1
    triangles = np.int64(0)
    squares = np.int64(0)
    for i in range(size):
        a = present[i]
        for j in range(begin[a], begin[a + 1]):
            mark[link[j]] = 1
        for j in range(i + 1, size):
            b = present[j]
            shared = np.int64(0)
            for word in range(words):
                shared += _ones(rows[a, word] & rows[b, word])
            squares += shared * (shared - 1) // 2
            if mark[b]:
                _add_edge(begin[a + 1] - begin[a], begin[b + 1] - begin[b], shared, low)
                triangles += shared
                on_slots[a] += shared
                on_slots[b] += shared
        for j in range(begin[a], begin[a + 1]):
            mark[link[j]] = 0
    low[WHEEL] += squares // 2
    return triangles // 3


@helper
def _four_cliques(size, begin, link):
    """4-cliques among the first `size` positions of a link; with the root, 5-cliques.

    Row a holds the neighbours after a as bits, so row a & row b are the common ones after both.
    """
    words = (size + 63) // 64
    rows = np.zeros((size, words), np.uint64)
    both = np.zeros(words, np.uint64)
    for a in range(size):
        for i in range(begin[a], begin[a + 1]):
            b = link[i]
            if a < b < size:
                rows[a, b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    cliques = np.int64(0)
    for a in range(size):
        for i in range(begin[a], begin[a + 1]):
            b = link[i]
            if b <= a or b >= size:
                continue
            any_bit = np.uint64(0)
            for word in range(words):
                both[word] = rows[a, word] & rows[b, word]
                any_bit |= both[word]
            if any_bit == 0:
                continue
            for k in range(begin[b], begin[b + 1]):
                z = link[k]
                if z > b and z < size and (both[z >> 6] >> np.uint64(z & 63)) & np.uint64(1):
                    for word in range(z >> 6, words):
                        cliques += _ones(both[word] & rows[z, word])
    return cliques


@helper
def _ones(word):
    """Number of set bits; the compiler knows this idiom and uses the machine's instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
