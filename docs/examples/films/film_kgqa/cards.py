"""Export: two lines a pair."""


class Cards:
    """Two lines a pair, for printing."""

    name = "cards"

    def write(self, source, folder):
        for split in source.splits:
            with open(folder / f"{split}.txt", "w", encoding="utf-8") as file:
                for record in source.records(split):
                    file.write(f"{record['question']}\n{record['answer']} {record['years']}\n\n")
