"""What a fit found, as lines of its summary, for the methods that find more than directions."""

from typing import Any

MOST_SHOWN = 12  # rounds
LIMITS = "rows of an uncertain class hardly move; nearest neighbours still predict classes (evaluate --probes knn)"


def found_fields(header: dict[str, Any]) -> dict[str, str]:
    """Return names and values that an artifact's `header` has from its method."""
    fields = dict[str, str]()
    if task := header.get("kept_task"):
        classes = len(task["classes"])
        fields["kept task"] = f"{task['name']} ({classes} classes, rank {task['rank']})"
    if found := header.get("projection"):
        fields["projection"] = (
            f"‖P‖₂ {found['norm']:.3g}, condition of AᵀV {found['condition']:.3g}, least angle of guarded and task "
            f"directions {found['angle']:.3g}°, Σ_xx shrunk by {found['shrinkage']:g}"
        )
    if (unit := header.get("unit")) and unit["gaps"]:
        ends = "equal to rounding" if unit["is_equal"] else "not yet equal"
        fields["unit rows"] = (
            f"{unit['n_rounds']} fits, class means {ends} (covariance with labels {unit['gaps'][0]:.2g} before, "
            f"{unit['gaps'][-1]:.2g} after)"
        )
    if chosen := header.get("auto"):
        fields |= _chosen(chosen)
    if tried := header.get("auto_k"):
        fields |= _tried(tried, [attribute["name"] for attribute in header["attributes"]])
    if moved := header.get("transport"):
        fields |= _transport(moved)
        if scored := header.get("scored"):
            effective = " and ".join(f"{n:,.0f}" for n in scored["effective_rows"])
            fields["score"] = (
                f"{scored['column']}: with {scored['n_unlabelled']:,} rows without a class, covariances are as good as "
                f"those of {effective} rows"
            )
        fields["limits"] = LIMITS
    if several := header.get("transports"):
        for i, step in enumerate(several["steps"], start=1):
            fields |= {f"{name} ({i}. {step['attribute']})": value for name, value in _transport(step).items()}
        fields["limits"] = f"{LIMITS}; later transports may bring a little of earlier attributes back"
    return fields | (_rounds(header) if "inlp" in header else {})


def rule_of_k(rule: dict[str, Any]) -> str:
    """Return how k was chosen, a `rule` of an artifact's header, in words."""
    if "alpha" in rule:
        return f"alpha {rule['alpha']:g}"
    if "rounds" in rule:
        return f"{rule['rounds']} rounds"
    if "auto" in rule:
        return "chosen by auto"
    return "as requested" if "given" in rule else "all of the rank"


def _chosen(found: dict[str, Any]) -> dict[str, str]:
    """Return the candidates of `fit --method auto` in the order in which they were tried."""
    tried = [
        f"{each['method']} k={each['k']}: change {each['change']:.3g}, leak {each['leak']:.3f} ± {each['error']:.3f} "
        f"({each['read_by']}{'' if each['converged'] else ', not converged'})"
        for each in found["tried"]
    ]
    rows = (
        f"{found['n_trial']:,} rows fitted, {found['n_train']:,} train {', '.join(found['attackers'])}, "
        f"{found['n_held_out']:,} are read, all of the fit"
    )
    failed = {"not fitted": "; ".join(f"{each['method']} ({each['why']})" for each in found["not_fitted"])}
    limit = f"the gentlest with a leak of at most {found['max_leak']:g}"
    return {"chosen": limit, "tried": "; ".join(tried), **(failed if found["not_fitted"] else {}), "trials": rows}


def _tried(found: dict[str, Any], names: list[str]) -> dict[str, str]:
    """Return the scores at each k that was tried."""
    fields = dict[str, str]()
    for i, (name, chance) in enumerate(zip(names, found["chance"], strict=False)):
        scores = [
            f"k = {k}: {scores[i]:.3f}"
            for k, scores in zip(found["ks"], found["accuracies"], strict=False)
            if i < len(scores)
        ]
        fields[f"k for {name}"] = f"held-out balanced accuracy {', '.join(scores)} (chance {chance:.3f})"
    ends = "at chance" if found["is_at_chance"] else "above chance at every k"
    rows = f"{found['n_trial']:,} rows fitted, {found['n_train']:,} trained, {found['n_held_out']:,} scored"
    return {**fields, "trials": f"{ends}; {rows}, all of the fit"}


def _rounds(header: dict[str, Any]) -> dict[str, str]:
    """Return what linear classifiers read in each round of INLP."""
    found, names = header["inlp"], [attribute["name"] for attribute in header["attributes"]]
    fields = dict[str, str]()
    for i, (name, chance) in enumerate(zip(names, found["chance"], strict=False)):
        read = [f"{accuracies[i]:.3f}" for accuracies in found["accuracies"] if i < len(accuracies)]
        shown = read if len(read) <= MOST_SHOWN else [*read[: MOST_SHOWN // 2], "…", *read[-MOST_SHOWN // 2 :]]
        fields[f"rounds for {name}"] = f"held-out balanced accuracy {', '.join(shown)} (chance {chance:.3f})"
    rows = f"trained on {found['n_train']:,} fitted rows, judged on {found['n_held_out']:,} others"
    n_left = header["rows"]["n_fitted"] - found["n_train"] - found["n_held_out"]
    return {**fields, "classifiers": rows + (f", a sample: {n_left:,} are in neither" if n_left > 0 else "")}


def _transport(found: dict[str, Any]) -> dict[str, str]:
    """Return how far covariances are shrunk, what readers read of held-out rows, and what the map does not do."""
    chosen = {name: found[name] for name in ("shrinkage", "towards")}
    how = "chosen on held-out rows of the fit" if found["tried"] else "as requested"
    shrunk = f"covariances shrunk by {found['shrinkage']:g} towards {found['towards']}"
    fields = {"transport": f"{found['n_classes']} classes, {shrunk}, {how}"}
    for trial in found["tried"]:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in trial.items() if name not in chosen)
        if trial.items() >= chosen.items():
            fields["trials"] = f"balanced accuracy on {found['n_held_out']:,} held-out rows of the fit {scores}"
        elif trial.get("shrinkage") == 1:
            fields["means alone"] = scores
    if found.get("noise"):
        fields["noise"] = f"{found['noise']:g}; apply needs --noise-key FILE"
    return fields
