"""What erasure kept: word similarity, neighbours, geometry."""

from typing import Any

from salcli.render.scatter import by_classes, centres_table
from salcli.render.table import Row, Section, Table, filled, names, numbers
from salcli.render.text import count, decimal, interval, items, listed, number, percent, record, records, visible

STAGES = ("before", "after")


def similarity_section(report: dict[str, Any]) -> Section | None:
    """Tabulate Spearman correlations, with a random subspace of the same size as control."""
    rows = records(report.get("similarity"))
    if not rows:
        return None
    lead = "Spearman correlation of cosine similarities with human judgements."
    if any(number(row.get("random_control")) is not None for row in rows):
        lead += (
            " The random control removes as many directions, drawn at random: what it loses too is the price of any "
            "removal, not of this one."
        )
    points = []
    for row in rows:
        if row.get("oov_words"):
            points.append(f"{visible(row.get('set'))}: out of vocabulary are {listed(items(row['oov_words']), 20)}")
    return Section("similarity", "Similarity", (lead,), (similarity_table(rows),), tuple(points))


def similarity_table(rows: list[dict[str, Any]]) -> Table:
    """Tabulate one set a row."""
    columns = (
        *names("set"),
        *numbers("before", "after", "95% interval of the difference", "random control"),
        *numbers("pairs used", "of", "out of vocabulary", "zero vectors"),
        *names("policy"),
    )
    return Table("Word similarity kept", columns, tuple(_similarity_row(row) for row in rows))


def _similarity_row(row: dict[str, Any]) -> Row:
    return (
        visible(row.get("set")),
        *(decimal(row.get(stage)) for stage in STAGES),
        interval(row.get("difference_ci95")),
        decimal(row.get("random_control")),
        *(count(row.get(name)) for name in ("pairs_used", "pairs_total", "oov_pairs", "zero_pairs")),
        visible(row.get("policy")),
    )


def neighbors_section(report: dict[str, Any]) -> Section | None:
    """List nearest neighbours of the words that were asked for."""
    neighbors = record(report.get("neighbors"))
    if not neighbors:
        return None
    lead = (
        f"Of the 10 nearest neighbours, {percent(neighbors.get('mean_overlap_at_10'))} stay the same, "
        f"on average over {count(neighbors.get('n_sampled'))} sampled rows."
    )
    rows = tuple(
        (
            visible(word.get("key")),
            decimal(word.get("overlap")),
            *(", ".join(_neighbor(near) for near in records(word.get(stage))) or "none" for stage in STAGES),
        )
        for word in records(neighbors.get("words"))
    )
    columns = (*names("word"), *numbers("overlap"), *names("nearest before", "nearest after"))
    return Section(
        "neighbors", "Neighbours", (lead,), filled([Table("Nearest neighbours and their cosine", columns, rows)])
    )


def _neighbor(near: dict[str, Any]) -> str:
    cosine = number(near.get("cosine"))
    return visible(near.get("key")) + ("" if cosine is None else f" {cosine:.2f}".replace("-", "−"))


def geometry_section(report: dict[str, Any]) -> Section | None:
    """Tell how far the classes of an attribute still lie apart, and how much of the file was removed."""
    geometry, deviation, scatter = (record(report.get(key)) for key in ("geometry", "deviation", "scatter"))
    if not (geometry or deviation or scatter):
        return None
    told = []
    if number(geometry.get("variance_removed")) is not None:
        told.append(f"Erasure removes {percent(geometry['variance_removed'])} of the variance.")
    if number(deviation.get("value")) is not None:
        told.append(
            f"Inner products move by {decimal(deviation['value'])} of their standard deviation, "
            f"on average over the pairs of {count(deviation.get('n'))} rows."
        )
    rows = tuple(
        (
            visible(cluster.get("attribute")),
            "all" if cluster.get("task_class") is None else visible(cluster["task_class"]),
            *(decimal(record(cluster.get(kind)).get(s)) for kind in ("within", "between", "ratio") for s in STAGES),
        )
        for cluster in records(geometry.get("clusters"))
    )
    if rows:
        told.append(
            "Mean cosines of pairs of rows within a class and of different classes (larger is nearer), and their "
            "ratio: the nearer they are to each other, the less the classes form clusters."
        )
    columns = (
        *names("attribute", "task class"),
        *numbers(*(f"{kind} {stage}" for kind in ("within", "between", "ratio") for stage in STAGES)),
    )
    table = Table("Clusters of the attribute's classes", columns, rows, is_detail=len(rows) > 12)
    return Section(
        "geometry",
        "Geometry",
        (" ".join(told),) if told else (),
        filled([table, *map(centres_table, by_classes(scatter))]),
    )
