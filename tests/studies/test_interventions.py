from seq2seq.inference.interventions import find_intervention
from seq2seq.studies.interventions import interventions_section
from seq2seq.studies.report import study_page
from seq2seq.studies.tables import compare_with_baseline


def test_section_has_a_row_for_each_group_and_intervention(groups):
    notes = []

    section = interventions_section(
        groups, [find_intervention("uniform"), find_intervention("drop_head:1")], notes
    )

    rows = {tuple(cell.text for cell in row[:3]): row[3:] for row in section.tables[0].rows}
    assert rows.keys() == {
        ("none", "uniform", "2"),
        ("none", "drop_head:1", "0"),
        ("multihead", "uniform", "2"),
        ("multihead", "drop_head:1", "2"),
    }
    unchanged = rows["none", "uniform", "2"]
    assert [cell.value for cell in unchanged] == [0, 1, 0]
    assert rows["multihead", "uniform", "2"][1].value != 1
    assert all(cell.text == "-" for cell in rows["none", "drop_head:1", "0"])
    assert len(notes) == 2
    assert "drop_head:1: the model has 0 heads" in notes[0]


def test_page_has_the_section_only_if_it_is_asked_for(groups):
    comparisons = compare_with_baseline(groups, None)
    runs = [run for group in groups for run in group.runs]

    def titles(*interventions):
        page = study_page(runs, groups, comparisons, name="x", interventions=interventions)
        return [section.title for section in page.sections]

    assert "Interventions" not in titles()
    assert "Interventions" in titles(find_intervention("frozen"))
