"""Sorting, searching and dynamic programming."""

import numpy as np


def bubble_sort(x):
    x = x.copy()
    for i in range(len(x)):
        for j in range(len(x) - i - 1):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x


def sorting_network(x):
    values = [x[i] for i in range(4)]
    for i, j in [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]:
        low = min(values[i], values[j])
        high = max(values[i], values[j])
        values[i], values[j] = low, high
    return np.stack(values)


def insertion_sort(x):
    x = x.copy()
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return x


def binary_search(table, wanted):
    low, high = 0, len(table)
    while low < high:
        middle = (low + high) // 2
        if table[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def first_negative(x):
    for i in range(len(x)):
        if x[i] < 0:
            return i
    return -1


def find_or_else(x, wanted):
    place = -1
    for i in range(len(x)):
        if x[i] == wanted:
            place = i
            break
    else:
        place = len(x)
    return place


def longest_increasing(x):
    n = len(x)
    best = np.ones(n, dtype=np.int64)
    for i in range(n):
        for j in range(i):
            if x[j] < x[i] and best[j] + 1 > best[i]:
                best[i] = best[j] + 1
    return best.max()


def edit_distance(a, b):
    row = np.arange(len(b) + 1)
    for i in range(len(a)):
        new = row.copy()
        new[0] = i + 1
        for j in range(len(b)):
            cost = 0 if a[i] == b[j] else 1
            new[j + 1] = min(min(row[j + 1] + 1, new[j] + 1), row[j] + cost)
        row = new
    return row[len(b)]


def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1)
    for i in range(len(weights)):
        before = best.copy()
        for c in range(capacity + 1):
            if weights[i] <= c:
                taken = before[c - weights[i]] + values[i]
                if taken > best[c]:
                    best[c] = taken
    return best[capacity]


def shortest_paths(d):
    d = d.copy()
    for k in range(len(d)):
        d = np.minimum(d, d[:, k][:, None] + d[k][None, :])
    return d


def sieve(n):
    prime = np.ones(n, dtype=bool)
    prime[:2] = False
    for i in range(2, n):
        if prime[i]:
            for j in range(i * i, n, i):
                prime[j] = False
    return prime.sum()


def beam_search(scores, width):
    beams = np.zeros(1)
    paths = np.zeros((1, 0), dtype=np.int64)
    for t in range(scores.shape[0]):
        total = (beams[:, None] + scores[t][None, :]).reshape(-1)
        order = np.argsort(-total)[:width]
        words = order % scores.shape[1]
        paths = np.concatenate([paths[order // scores.shape[1]], words[:, None]], axis=1)
        beams = total[order]
    return beams, paths


def greedy_decode(table, start, end):
    token, length = start, 0
    out = np.full(20, -1)
    while token != end and length < 20:
        token = table[token].argmax()
        out[length] = token
        length += 1
    return out, length


def viterbi(start, moves, emissions):
    score = start + emissions[0]
    back = []
    for t in range(1, emissions.shape[0]):
        total = score[:, None] + moves
        back.append(total.argmax(axis=0))
        score = total.max(axis=0) + emissions[t]
    return score, np.stack(back)


def majority(x):
    candidate, count = x[0], 0
    for value in x:
        if count == 0:
            candidate = value
        count += 1 if value == candidate else -1
    return candidate


_rng = np.random.default_rng(1)
_sorted = np.sort(_rng.normal(size=50))

PROGRAMS = [
    (bubble_sort, (_rng.normal(size=20),)),
    (sorting_network, (_rng.normal(size=4),), (np.array([4.0, 3, 2, 1]),)),
    (insertion_sort, (_rng.normal(size=12),)),
    (
        binary_search,
        (_sorted, np.float64(0.1)),
        (_sorted, np.float64(-9)),
        (_sorted, np.float64(9)),
    ),
    (first_negative, (np.array([1.0, 2, -1, -2] * 30),), (np.ones(120),)),
    (find_or_else, (np.arange(5), np.int64(3)), (np.arange(5), np.int64(9))),
    (longest_increasing, (_rng.normal(size=12),)),
    (edit_distance, (np.array([1, 2, 3, 4, 4]), np.array([2, 3, 1, 4]))),
    (knapsack, (np.array([2, 3, 4, 5]), np.array([3.0, 4, 5, 6]), 12)),
    (shortest_paths, (_rng.uniform(1, 9, size=(5, 5)),)),
    (sieve, (60,)),
    (beam_search, (_rng.normal(size=(4, 6)), 3)),
    (greedy_decode, (_rng.normal(size=(7, 7)), np.int64(0), np.int64(3))),
    (viterbi, (_rng.normal(size=3), _rng.normal(size=(3, 3)), _rng.normal(size=(90, 3)))),
    (majority, (np.array([3, 3, 4, 2, 4, 4, 2, 4, 4]),)),
]
