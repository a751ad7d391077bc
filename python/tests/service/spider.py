"""Crawls the site of test_scrapy.py: python spider.py URL FOLDER SETTINGS."""

import json
import sys

import scrapy
from scrapy.crawler import CrawlerProcess


class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        yield scrapy.Request(sys.argv[1])

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.page)

    def page(self, response):
        yield {"url": response.url, "text": response.css("p::text").get()}


settings = {
    "ADDONS": {"nearprint.scrapy.NearprintAddon": 500},
    "FEEDS": {sys.argv[2] + "/items.jsonl": {"format": "jsonlines"}},
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    **json.loads(sys.argv[3]),
}
process = CrawlerProcess(settings)
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
with open(sys.argv[2] + "/stats.json", "w") as file:
    json.dump(crawler.stats.get_stats(), file, default=str)
