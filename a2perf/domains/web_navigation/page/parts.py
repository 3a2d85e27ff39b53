"""Parts of a page: those above the form (navigation, pictures, offers, cart, headings, footer), and those in it."""

from __future__ import annotations

from collections.abc import Callable

from a2perf.domains.web_navigation.page.nodes import (
    CONTROL_HEIGHT,
    FORM_WIDTH,
    LARGE,
    NORMAL,
    PAGE_WIDTH,
    SMALL,
    NodeRole,
    PageNode,
    control,
    flow,
    link,
    placed,
    placed_text,
    text_box,
)

MENU = ("Home", "Login", "Account", "Cart", "Checkout")


def navbar(page: int) -> PageNode:
    """A dark bar with a brand link and a toggler that shows five more links; every link ends the episode."""
    name = f"actionable_navbar_p{page}"
    brand = link(16, 11, "GShopping", f"{name}_i5", LARGE, "navbar-brand")
    icon = placed("span", 12, 5, 30.0, 30.0, classes="navbar-toggler-icon")
    toggler = placed(
        "button", 305, 8, 54.0, 40.0, icon, id=f"{name}_i6", classes="navbar-toggler", role=NodeRole.TOGGLE
    )
    links = [
        flow("li", link(16, 8, caption, f"{name}_i{number}", classes="nav-link"), classes="nav-item", h=40.0)
        for number, caption in enumerate(MENU)
    ]
    menu = flow("ul", *links, classes="navbar-nav mr-auto")
    collapse = flow("div", menu, classes="collapse navbar-collapse", hidden=True)
    header = flow("div", brand, toggler, classes="navbar-header", h=56.0)
    container = flow("div", header, collapse, classes="container-fluid")
    nav = flow("nav", container, classes="navbar navbar-expand-lg navbar-dark bg-dark")
    return flow("div", nav, id=f"group_navbar_p{page}")


def carousel(page: int) -> PageNode:
    """One picture of five, which ends the episode, and arrows without a size."""
    name = f"actionable_carousel_p{page}"
    dots = [placed("li", 77.5 + 45.0 * dot, 0, 30.0, 3.0, classes="active" if dot == 0 else "") for dot in range(5)]
    indicators = placed("ol", 0, 130, PAGE_WIDTH, 3.0, *dots, classes="carousel-indicators")
    image = placed("img", 0, 0, PAGE_WIDTH, 146.0, id=f"{name}_i0", classes="d-block w-100", role=NodeRole.END)
    item = placed("div", 0, 0, PAGE_WIDTH, 146.0, image, classes="carousel-item active")
    slides = placed("div", 0, 0, PAGE_WIDTH, 146.0, item, classes="carousel-inner")
    arrows = [
        placed("a", 0, 73, 0.0, 0.0, id=f"{name}_i{5 + number}", classes=f"carousel-control-{way}", role=NodeRole.END)
        for number, way in enumerate(("prev", "next"))
    ]
    return flow("div", indicators, slides, *arrows, id="carouselExampleIndicators", classes="carousel slide", h=146.0)


def dealmedia(page: int) -> PageNode:
    """A picture, a headline and a link that ends the episode."""
    image = placed("img", 0, 0, 150.0, 150.0, classes="mr-3")
    headline = placed_text("h5", 0, 0, "Deal of the Day", LARGE, classes="mt-0")
    offer = placed_text("p", 0, 42, "Gaming workstation")
    more = link(0, 76, "Get it today!", f"actionable_dealmedia_p{page}")
    body = placed("div", 166, 0, 209.0, 150.0, headline, offer, more, classes="media-body")
    return flow("div", image, body, id=f"group_dealmedia_p{page}", classes="media", h=166.0)


def deck(page: int) -> PageNode:
    """Four cards with a picture link, a title link, a price and stars."""
    name = f"actionable_deck_p{page}"
    cards = []
    for number in range(4):
        odd = number % 2
        picture = placed("img", 0, 0, 343.0, 90.0, classes="card-img-top")
        title = link(0, 0, f"Title {odd + 1}", f"{name}_i{2 * number + 1}", LARGE)
        stars = [
            placed_text("span", 20.0 + 18.0 * star, 8, "★" if star < 4 - odd else "☆", SMALL, classes="text-muted")
            for star in range(5)
        ]
        card_body = flow(
            "div",
            placed("h4", 20, 12, 300.0, 30.0, title, classes="card-title"),
            placed_text("h5", 20, 50, f"${odd}.99", classes="card-price"),
            placed_text("p", 20, 84, f"Description of title {odd + 1}", SMALL, classes="card-text"),
            classes="card-body",
            h=120.0,
        )
        above = flow("a", picture, id=f"{name}_i{2 * number}", h=90.0, role=NodeRole.END)
        footer = flow("div", *stars, classes="card-footer", h=37.0)
        cards.append(flow("div", above, card_body, footer, classes="card h-100"))
    return flow("div", *cards, id=f"group_deck_p{page}", classes="card-deck")


CART_ITEMS = (("Shoe", "Running shoe"), ("Bag", "Shoulder bag"), ("Tshirt", "Cotton tshirt"))


def cart(page: int) -> PageNode:
    """Three goods with prices of the episode and links to remove them, a harmless promotion field, and a button."""
    name = f"actionable_cart_p{page}"
    caption = placed_text("span", 0, 8, "Your cart", LARGE, classes="text-muted")
    count = placed("span", 320, 10, 24.0, 24.0, text="3", font=SMALL, classes="badge badge-secondary badge-pill")
    title = flow("h4", caption, count, classes="d-flex mb-3", h=46.0)
    items = []
    for number, (item, description) in enumerate(CART_ITEMS):
        heading = placed_text("h6", 0, 0, item, classes="my-0")
        small = placed_text("small", 0, 25, description, SMALL, classes="text-muted")
        about = placed("div", 16, 10, 180.0, 48.0, heading, small)
        price = placed("span", 212, 10, 50.0, 24.0, font=NORMAL, slot=f"cart_p{page}.price{number}")
        remove = link(266, 12, "Remove", f"{name}_i{number}", SMALL)
        items.append(flow("li", about, price, remove, classes="list-group-item d-flex", h=68.0))
    total = placed("strong", 250, 12, 79.0, 24.0, font=NORMAL, slot=f"cart_p{page}.total")
    items.append(
        flow("li", placed_text("span", 16, 12, "Total (USD)"), total, classes="list-group-item d-flex", h=48.0)
    )
    promotion = text_box(0, f"{name}_i3", "Promo code", 230.0)
    redeem = placed(
        "button",
        0,
        0,
        105.0,
        CONTROL_HEIGHT,
        id=f"{name}_i4",
        text="Redeem",
        font=NORMAL,
        classes="btn btn-secondary",
        role=NodeRole.END,
    )
    append = placed("div", 240, 0, 105.0, CONTROL_HEIGHT, redeem, classes="input-group-append")
    code = flow("div", promotion, append, classes="input-group", h=CONTROL_HEIGHT)
    form = flow("form", code, classes="card p-2", h=54.0)
    goods = flow("ul", *items, classes="list-group mb-3")
    column = flow("div", title, goods, form, classes="col-md-4 order-md-2 mb-4")
    container = flow("div", flow("div", column, classes="row"), classes="container", pad=15.0)
    return flow("div", container, id=f"group_cart_p{page}")


def header(caption: str) -> Callable[[int], PageNode]:
    """A heading with that caption."""
    return lambda page: flow(
        "div", placed_text("h5", 16, 8, caption, LARGE), id="group_header", classes="header", h=46.0
    )


def footer(page: int) -> PageNode:
    """A notice and four links that end the episode."""
    links = [
        flow("li", link(16, 3, caption, f"actionable_footer_p{page}_i{number}"), classes="list-inline-item", h=30.0)
        for number, caption in enumerate(("Contact", "Terms", "Support", "Full Site"))
    ]
    notice = flow("p", classes="mb-1", text="2020-2021 The Company.", h=30.0, font=NORMAL, pad=16.0)
    lists = flow("ul", *links, classes="list-inline")
    return flow("div", notice, lists, id=f"group_footer_p{page}", classes="my-5 text-muted text-center text-small")


# --- In the form: controls and buttons


def _group(name: str, height: float, *children: PageNode, classes: str = "form-group") -> PageNode:
    return flow("div", *children, id=f"group_{name}", classes=classes, h=height)


def _mark(kind: str, **rest: object) -> PageNode:
    """A checkbox or a radio button."""
    return placed("input", 0, 5, 14.0, 14.0, type=kind, **rest)


def text_input(concept: str, label: str, placeholder: str = "", kind: str = "text") -> Callable[[int], PageNode]:
    """An input, with a label if there is a caption for it."""

    def build(page: int) -> PageNode:
        html_id, top = f"actionable_{concept}", 32.0 if label else 0.0
        above = []
        if label:
            above.append(placed_text("label", 0, 0, label, id=f"label_{concept}", control=html_id, role=NodeRole.LABEL))
        box = text_box(top, html_id, placeholder, kind=kind, field=concept)
        return _group(concept, top + CONTROL_HEIGHT + 16.0, *above, box)

    return build


def checkbox(concept: str, label: str) -> Callable[[int], PageNode]:
    """A checkbox with its label to the right."""

    def build(page: int) -> PageNode:
        html_id = f"actionable_{concept}"
        box = _mark("checkbox", id=html_id, classes="form-check-input", field=concept, role=NodeRole.CHECK)
        beside = placed_text(
            "label",
            20,
            0,
            label,
            id=f"label_{concept}",
            classes="form-check-label",
            control=html_id,
            role=NodeRole.LABEL,
        )
        return _group(concept, 32.0, box, beside, classes="form-check")

    return build


def selection(concept: str, options: tuple[str, ...]) -> Callable[[int], PageNode]:
    """A select without a label."""

    def build(page: int) -> PageNode:
        chosen = control(
            "select",
            id=f"actionable_{concept}",
            classes="custom-select d-block",
            options=options,
            field=concept,
            role=NodeRole.SELECT,
        )
        return _group(concept, CONTROL_HEIGHT + 16.0, chosen)

    return build


def radios(concept: str, heading: str, choices: tuple[str, ...]) -> Callable[[int], PageNode]:
    """Radio buttons below a heading, each with a label that does nothing."""

    def build(page: int) -> PageNode:
        items = []
        for number, choice in enumerate(choices):
            button = _mark(
                "radio",
                id=f"actionable_{concept}_i{number}",
                classes="custom-control-input",
                choice=choice,
                field=concept,
                role=NodeRole.RADIO,
            )
            label = placed_text("label", 24, 0, choice, classes="custom-control-label")
            name = f"{concept}_p{page}_i{number}"
            items.append(_group(name, 26.0, button, label, classes="custom-control custom-radio"))
        # a heading without text has no height and is therefore not listed
        title = flow("h6", classes="mb-3", text=heading, h=32.0 if heading else 0.0, font=NORMAL)
        rows = flow("div", *items, classes=f"d-block my-3 {concept}root")
        return flow("div", title, rows, id=f"group_{concept}_p{page}", classes="d-block my-3")

    return build


def page_button(concept: str, caption: str, role: NodeRole) -> Callable[[int], PageNode]:
    """The button that leads to the next page or submits."""

    def build(page: int) -> PageNode:
        button = placed(
            "button",
            0,
            0,
            FORM_WIDTH,
            48.0,
            id=f"actionable_{concept}_p{page}",
            text=caption,
            font=LARGE,
            classes="btn btn-primary btn-lg btn-block",
            role=role,
        )
        return _group(f"{concept}_p{page}", 64.0, button)

    return build


def forgotten_link(concept: str, caption: str) -> Callable[[int], PageNode]:
    """A link that ends the episode."""
    return lambda page: _group(f"{concept}_p{page}", 40.0, link(0, 0, caption, f"actionable_{concept}"))


def search_box(page: int) -> PageNode:
    """An input that belongs to no profile key."""
    box = text_box(0, f"actionable_inputgroup_p{page}", "Search")
    return _group(f"inputgroup_p{page}", CONTROL_HEIGHT + 16.0, box, classes="input-group")
