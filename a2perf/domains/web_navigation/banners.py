"""Parts above the form of a page: navigation, pictures, offers, cart, headings and footer."""

from __future__ import annotations

from collections.abc import Callable

from a2perf.domains.web_navigation.nodes import (
    CONTROL_HEIGHT,
    LARGE,
    NORMAL,
    PAGE_WIDTH,
    SMALL,
    NodeRole,
    PageNode,
    placed,
    placed_text,
)

MENU = ("Home", "Login", "Account", "Cart", "Checkout")


def navbar(page: int) -> PageNode:
    """A dark bar with a brand link and a toggler that shows five more links; every link ends the episode."""
    name = f"actionable_navbar_p{page}"
    brand = placed_text("a", 16, 11, "GShopping", LARGE, id=f"{name}_i5", classes="navbar-brand", role=NodeRole.END)
    icon = placed("span", 12, 5, 30.0, 30.0, classes="navbar-toggler-icon")
    toggler = placed(
        "button", 305, 8, 54.0, 40.0, icon, id=f"{name}_i6", classes="navbar-toggler", role=NodeRole.TOGGLE
    )
    links = [
        PageNode(
            "li",
            classes="nav-item",
            h=40.0,
            children=[
                placed_text("a", 16, 8, caption, id=f"{name}_i{number}", classes="nav-link", role=NodeRole.END),
            ],
        )
        for number, caption in enumerate(MENU)
    ]
    menu = PageNode("ul", classes="navbar-nav mr-auto", children=links)
    collapse = PageNode("div", classes="collapse navbar-collapse", hidden=True, children=[menu])
    header = PageNode("div", classes="navbar-header", h=56.0, children=[brand, toggler])
    container = PageNode("div", classes="container-fluid", children=[header, collapse])
    nav = PageNode("nav", classes="navbar navbar-expand-lg navbar-dark bg-dark", children=[container])
    return PageNode("div", f"group_navbar_p{page}", children=[nav])


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
    return PageNode(
        "div", "carouselExampleIndicators", "carousel slide", h=146.0, children=[indicators, slides, *arrows]
    )


def dealmedia(page: int) -> PageNode:
    """A picture, a headline and a link that ends the episode."""
    image = placed("img", 0, 0, 150.0, 150.0, classes="mr-3")
    link = placed_text("a", 0, 76, "Get it today!", id=f"actionable_dealmedia_p{page}", role=NodeRole.END)
    body = placed(
        "div",
        166,
        0,
        209.0,
        150.0,
        placed_text("h5", 0, 0, "Deal of the Day", LARGE, classes="mt-0"),
        placed_text("p", 0, 42, "Gaming workstation"),
        link,
        classes="media-body",
    )
    return PageNode("div", f"group_dealmedia_p{page}", "media", h=166.0, children=[image, body])


def deck(page: int) -> PageNode:
    """Four cards with a picture link, a title link, a price and stars."""
    name = f"actionable_deck_p{page}"
    cards = []
    for number in range(4):
        odd = number % 2
        picture = placed("img", 0, 0, 343.0, 90.0, classes="card-img-top")
        title = placed_text("a", 0, 0, f"Title {odd + 1}", LARGE, id=f"{name}_i{2 * number + 1}", role=NodeRole.END)
        stars = [
            placed_text("span", 20.0 + 18.0 * star, 8, "★" if star < 4 - odd else "☆", SMALL, classes="text-muted")
            for star in range(5)
        ]
        card_body = PageNode(
            "div",
            classes="card-body",
            h=120.0,
            children=[
                placed("h4", 20, 12, 300.0, 30.0, title, classes="card-title"),
                placed_text("h5", 20, 50, f"${odd}.99", classes="card-price"),
                placed_text("p", 20, 84, f"Description of title {odd + 1}", SMALL, classes="card-text"),
            ],
        )
        link = PageNode("a", f"{name}_i{2 * number}", h=90.0, role=NodeRole.END, children=[picture])
        footer = PageNode("div", classes="card-footer", h=37.0, children=stars)
        cards.append(PageNode("div", classes="card h-100", children=[link, card_body, footer]))
    return PageNode("div", f"group_deck_p{page}", "card-deck", children=cards)


CART_ITEMS = (("Shoe", "Running shoe"), ("Bag", "Shoulder bag"), ("Tshirt", "Cotton tshirt"))


def cart(page: int) -> PageNode:
    """Three goods with prices of the episode and links to remove them, a harmless promotion field, and a button."""
    name = f"actionable_cart_p{page}"
    title = PageNode(
        "h4",
        classes="d-flex mb-3",
        h=46.0,
        children=[
            placed_text("span", 0, 8, "Your cart", LARGE, classes="text-muted"),
            placed("span", 320, 10, 24.0, 24.0, text="3", font=SMALL, classes="badge badge-secondary badge-pill"),
        ],
    )
    items = []
    for number, (item, description) in enumerate(CART_ITEMS):
        about = placed(
            "div",
            16,
            10,
            180.0,
            48.0,
            placed_text("h6", 0, 0, item, classes="my-0"),
            placed_text("small", 0, 25, description, SMALL, classes="text-muted"),
        )
        price = placed("span", 212, 10, 50.0, 24.0, font=NORMAL, slot=f"cart_p{page}.price{number}")
        remove = placed_text("a", 266, 12, "Remove", SMALL, id=f"{name}_i{number}", role=NodeRole.END)
        items.append(PageNode("li", classes="list-group-item d-flex", h=68.0, children=[about, price, remove]))
    total = PageNode(
        "li",
        classes="list-group-item d-flex",
        h=48.0,
        children=[
            placed_text("span", 16, 12, "Total (USD)"),
            placed("strong", 250, 12, 79.0, 24.0, font=NORMAL, slot=f"cart_p{page}.total"),
        ],
    )
    promotion = placed(
        "input",
        0,
        0,
        230.0,
        CONTROL_HEIGHT,
        id=f"{name}_i3",
        classes="form-control",
        type="text",
        placeholder="Promo code",
        role=NodeRole.TEXT,
        font=NORMAL,
        pad=12.0,
    )
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
    code = PageNode("div", classes="input-group", h=CONTROL_HEIGHT, children=[promotion, append])
    form = PageNode("form", classes="card p-2", h=54.0, children=[code])
    goods = PageNode("ul", classes="list-group mb-3", children=[*items, total])
    column = PageNode("div", classes="col-md-4 order-md-2 mb-4", children=[title, goods, form])
    row = PageNode("div", classes="row", children=[column])
    container = PageNode("div", classes="container", pad=15.0, children=[row])
    return PageNode("div", f"group_cart_p{page}", children=[container])


def header(caption: str) -> Callable[[int], PageNode]:
    """A heading with that caption."""

    def build(page: int) -> PageNode:
        return PageNode("div", "group_header", "header", h=46.0, children=[placed_text("h5", 16, 8, caption, LARGE)])

    return build


def footer(page: int) -> PageNode:
    """A notice and four links that end the episode."""
    links = [
        PageNode(
            "li",
            classes="list-inline-item",
            h=30.0,
            children=[placed_text("a", 16, 3, caption, id=f"actionable_footer_p{page}_i{number}", role=NodeRole.END)],
        )
        for number, caption in enumerate(("Contact", "Terms", "Support", "Full Site"))
    ]
    notice = PageNode("p", classes="mb-1", text="2020-2021 The Company.", h=30.0, font=NORMAL, pad=16.0)
    lists = PageNode("ul", classes="list-inline", children=links)
    return PageNode("div", f"group_footer_p{page}", "my-5 text-muted text-center text-small", children=[notice, lists])
