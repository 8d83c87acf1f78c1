"""How rows are streamed, and how work is distributed over threads.

source     the embeddings of a command: an ordered list of shards, whose rows are numbered through
shard      one file, or one array in it
partition  consecutive rows of a shard, as many as its width says: sums are added up partition by partition, which
           fixes the order of summation
chunk      consecutive rows of a partition that one task reads: a description (shard, start, stop) that pickles
batch      the part of a chunk that is in memory at once, in a buffer that the next batch is read into
tile       the rows of one matrix product
"""
