# The program holdfast, for any Redis: docker build -t holdfast .
FROM node:24-slim AS build
WORKDIR /holdfast
COPY . .
RUN npm ci --no-audit --no-fund
RUN npm run standalone

FROM node:24-slim
COPY --from=build /holdfast/build/standalone/holdfast.cjs /usr/local/bin/holdfast
USER node
ENTRYPOINT ["holdfast"]
