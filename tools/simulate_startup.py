#!/usr/bin/env python3
"""Calculate the time until all nodes of a large job have the weights on their own disks, by two methods: each node
copies for itself, or one copy goes from node to node (sbcast, slurm/common.sh). Nothing is measured.

    tools/simulate_startup.py                               400 nodes, 40 GB, several shared file systems
    tools/simulate_startup.py --nodes 100 --gigabytes 140

Each for itself: all nodes read at once; each gets its share of the file system, at most what its network, its
streams (engines/model_files.py) and its disk take. Broadcast: sbcast cuts the file into blocks; a node sends a block to
--width others, those to as many more, and the next block follows when the last node has written this one. Both end
with the first loading, from the node's own disk into the memory of the cards.
"""

import argparse
import math

from kgqa_hpc.engines.model_files import STREAMS

STREAM = 0.75  # GB/s of one stream from a parallel file system; between the 0.5 and 1 that sites report
NETWORK = 12.5  # GB/s of a node: 100 Gbit/s
DISK = 3.0  # GB/s of a node's NVMe disk
BLOCK = 0.008  # GB; sbcast's default
WIDTH = 16  # nodes that a node sends to: Slurm's default TreeWidth
FILE_SYSTEMS = (20.0, 50.0, 100.0, 200.0, 500.0)  # GB/s together


def alone(nodes: int, gigabytes: float, file_system: float) -> float:
    """Seconds until every node has read the weights for itself."""
    return gigabytes / min(file_system / nodes, STREAMS * STREAM, NETWORK, DISK)


def broadcast(nodes: int, gigabytes: float, file_system: float, width: int = WIDTH) -> float:
    """Seconds until the last node has the last block."""
    below, levels, latest = nodes - 1, 0, 1
    while below > 0:
        levels, latest = levels + 1, latest * width
        below -= latest
    fan = min(width, nodes - 1)
    block = BLOCK / min(STREAM, file_system) + levels * fan * BLOCK / NETWORK + BLOCK / DISK
    return math.ceil(gigabytes / BLOCK) * block


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--gigabytes", type=float, default=40.0, help="of the weights (default 40)")
    parser.add_argument("--width", type=int, default=WIDTH, help="nodes that a node sends to (TreeWidth)")
    args = parser.parse_args()
    print(f"{args.nodes:,} nodes, {args.gigabytes:,.0f} GB of weights, calculated")
    print("file system     each for itself     broadcast     read of the file system")
    for speed in FILE_SYSTEMS:
        own = alone(args.nodes, args.gigabytes, speed)
        tree = broadcast(args.nodes, args.gigabytes, speed, args.width)
        total = args.nodes * args.gigabytes / 1000
        print(
            f"{speed:>6.0f} GB/s {own:>17,.0f} s {tree:>11,.0f} s     {total:,.1f} TB against {args.gigabytes:,.0f} GB"
        )


if __name__ == "__main__":
    main()
