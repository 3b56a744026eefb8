from seq2seq.inference.tally import Tally


def test_counts_of_parts_add_up_and_name_the_first_lines():
    tally, part = Tally(), Tally()
    for line in "123":
        tally.count("lost", line)
    tally.count("lost", "3", number=0)
    for line in "3456":
        part.count("lost", line, number=2)
    part.unknown["x"] = 4

    tally.add(part)

    assert tally.numbers == {"lost": 11}
    assert tally.unknown == {"x": 4}
    assert tally.where("lost") == " (lines 1, 2, 3, 4, 5, ...)"
    assert tally.where("looping") == ""
