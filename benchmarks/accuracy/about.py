"""What the page says about each table: its title, the question and the split, and the measure."""

ABOUT = {
    "adult": ("Adult", "is the income above 50 000 dollars? The published training and test files", "AUC"),
    "covertype-2": ("Covertype, class 2", "is it lodgepole pine? A random split of part of the rows", "AUC"),
    "covertype-7": ("Covertype, 7 classes", "which cover type is it? The same split", "accuracy"),
    "letter": ("Letter", "which of 26 letters is it? The first rows train, as its publishers do", "accuracy"),
    "california": ("California housing", "what is the median price of a house? A random split", "R²"),
    "bike": ("Bike sharing", "how many bikes are rented in an hour? A random split", "R²"),
    "rcv1": ("RCV1, small", "which of two topics is it? The split that it comes with", "accuracy"),
    "a9a": ("a9a", "Adult as binary columns, without a schema. The split that it comes with", "AUC"),
}
